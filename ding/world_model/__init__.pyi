from ding.world_model.idm import InverseDynamicsModel as InverseDynamicsModel
