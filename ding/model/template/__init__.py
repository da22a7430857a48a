"""Complete networks, registered in ``MODEL_REGISTRY``."""

# Registers the models.
from ding.model.template import (  # noqa: F401
    acer,
    bc,
    bcq,
    decision_transformer,
    ebm,
    edac,
    maqac,
    mavac,
    ngu,
    pdqn,
    pg,
    ppg,
    q_learning,
    qac,
    qac_dist,
    qvac,
    vac,
)
from ding.utils import MODEL_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

# Rarely used: imported on first use.
for _name, _class in {
    "atoc": "ATOC",
    "collaq": "CollaQ",
    "coma": "COMA",
    "dreamervac": "DREAMERVAC",
    "havac": "HAVAC",
    "hpt": "HPT",
    "language_transformer": "LanguageTransformer",
    "madqn": "MADQN",
    "qmix": "QMix",
    "qtran": "QTran",
    "sqn": "SQN",
    "wqmix": "WQMix",
}.items():
    register_lazily(MODEL_REGISTRY, _name, f"ding.model.template.{_name}:{_class}")
register_lazily(MODEL_REGISTRY, "ensemble_qac", "ding.model.template.ensemble_qac:EnsembleQAC")
register_lazily(MODEL_REGISTRY, "crossq", "ding.model.template.ensemble_qac:CrossQAC")
register_lazily(MODEL_REGISTRY, "simba_qac", "ding.model.template.simba_qac:SimbaQAC")
register_lazily(MODEL_REGISTRY, "pd", "ding.model.template.diffusion:PlanDiffuser")
register_lazily(MODEL_REGISTRY, "pc_bfs", "ding.model.template.procedure_cloning:ProcedureCloningBFS")
register_lazily(MODEL_REGISTRY, "pc_mcts", "ding.model.template.procedure_cloning:ProcedureCloningMCTS")
register_lazily(MODEL_REGISTRY, "recurrent_vac", "ding.model.template.recurrent_vac:RecurrentVAC")
register_lazily(MODEL_REGISTRY, "dd", "ding.model.template.diffusion:GaussianInvDynDiffusion")

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]")
