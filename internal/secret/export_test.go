package secret

// Forget forgets what was judged. Remembered is how many names are remembered since.
func Forget() { clear(judged.names) }

func Remembered() int { return len(judged.names) }
