from ding.entry.cli_parsers.k8s_parser import K8SParser as K8SParser
from ding.entry.cli_parsers.k8s_parser import k8s_parser as k8s_parser
from ding.entry.cli_parsers.platforms import PLATFORM_PARSERS as PLATFORM_PARSERS
from ding.entry.cli_parsers.slurm_parser import SlurmParser as SlurmParser
from ding.entry.cli_parsers.slurm_parser import slurm_parser as slurm_parser
