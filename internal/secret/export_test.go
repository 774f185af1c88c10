package secret

// Forget clears the remembered verdicts. Remembered counts the names that were judged since.
func Forget() { clear(judged.names) }

func Remembered() int { return len(judged.names) }
