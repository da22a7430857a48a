from ding.framework.wrapper.step_timer import StepTimer as StepTimer
