package worker

func runAsWorker() bool { return false }
