package sim

// packageOf is the package of a job's problem.
func (w *World) packageOf(job int64) int64 { return job % packages }

const packages = 3

func (a *arbiter) openPackage(k, pkg int64, reply func(answer)) {
	ask(a.w, &a.process, nil, PackageLeasedTo{k, pkg}, func(out bool, err error) {
		switch {
		case err != nil:
			reply(answer{status: unavailable})
		case !out:
			reply(answer{status: forbidden})
		default:
			reply(answer{status: ok})
		}
	})
}

func (a *arbiter) submit(s Submit) {
	ask(a.w, &a.process, nil, s, func(out int64, err error) {
		if err == nil && a.led != nil {
			a.led.enqueue(out, 0, s.Language)
			a.led.kick()
		}
	})
}

func (a *arbiter) cancel(job int64) {
	ask(a.w, &a.process, nil, CancelOpenJob{job}, func(out bool, err error) {
		l := a.led
		if err != nil || !out || l == nil {
			return
		}
		if h := l.byJob(job); h != nil {
			l.letGo(h.Token)
		}
		l.board.RemoveJob(job)
		delete(l.failedBy, job)
		l.kick()
	})
}
