package worker

import (
	"fmt"
	"sync"
)

// A starter starts workers on one thread, which lives as long as the pool: they end with it.
type starter struct {
	// program is that to start; the running program if empty.
	program string
	memory  int64
	// starts are functions to run on the thread, until quit is closed.
	starts chan func()
	// thread begins the thread.
	thread sync.Once
	quit   chan struct{}
}

func newStarter(o Options) *starter {
	return &starter{program: o.program, memory: o.Memory, starts: make(chan func()), quit: make(chan struct{})}
}

// run runs starts on the thread.
func (s *starter) run() {
	holdThread()
	for {
		select {
		case start := <-s.starts:
			start()
		case <-s.quit:
			return
		}
	}
}

// launch starts a worker of a priority, which prepares for kinds of requests.
func (s *starter) launch(at priority, kinds []Kind) (w *process, err error) {
	path := s.program
	if path == "" {
		if path, err = self(); err != nil {
			return nil, fmt.Errorf("start worker: %w", err)
		}
	}
	done := make(chan struct{})
	begin := func() {
		defer close(done)
		if w, err = start(path, s.memory, kinds); err == nil && at == low {
			w.lower()
		}
	}
	s.thread.Do(func() { go s.run() })
	select {
	case s.starts <- begin:
		<-done
	case <-s.quit:
		return nil, ErrUnavailable
	}
	if err == nil {
		err = w.greet()
	}
	return w, err
}
