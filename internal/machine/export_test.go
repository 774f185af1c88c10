package machine

const (
	MaxBusy        = maxBusy
	MaxFlowHistory = maxFlowHistory
)
