package journal

const (
	MaxBusy        = maxBusy
	MaxFlowHistory = maxFlowHistory
)
