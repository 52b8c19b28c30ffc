package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/usher-dev/usher/internal/printable"
)

// A process is a worker as its parent sees it. It answers one request at a time.
type process struct {
	cmd     *exec.Cmd
	in      *os.File
	out     *os.File
	started time.Time
	// last is the id of the last request, rest what is not sent yet of it, and watch what ends it; answers are read
	// from out.
	last    uint64
	rest    []byte
	watch   watch
	answers *frames
	stderr  printable.Head
	// startup is the CPU time of the process before its hello.
	startup time.Duration
	// priority, turn, which is that of the request that it has, and used, when it had the last one, are
	// the pool's; so is preempted: it was ended, and not for what it did.
	priority  priority
	turn      *turn
	used      time.Time
	preempted bool
	// ended is closed when the process has ended and its error output was read.
	ended chan struct{}
}

// longestHead is how many bytes of the error output are kept.
const longestHead = 2000

// startTimeout is how long a worker may take until its hello. One of low priority may take four times
// as long, since it hardly gets the processor where that is busy.
const startTimeout = 15 * time.Second

// start starts the program at path as a worker with this much memory, which prepares for kinds of requests.
func start(path string, memory int64, kinds []Kind) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		closeAll(childIn, in)
		return nil, fmt.Errorf("start worker: %w", err)
	}
	p := &process{in: in, out: out, started: time.Now(), ended: make(chan struct{}), stderr: printable.Head{Limit: longestHead}, answers: newFrames(out)}
	p.watch.process = p
	p.cmd = &exec.Cmd{
		Path: path, Args: []string{name}, Dir: "/",
		Env:   []string{memoryVariable + "=" + strconv.FormatInt(memory, 10), kindsVariable + "=" + string(kinds)},
		Stdin: childIn, Stdout: childOut, Stderr: &p.stderr,
		SysProcAttr: attributes(),
		// A dead worker may have passed its error output to another process.
		WaitDelay: time.Second,
	}
	err = p.cmd.Start()
	closeAll(childIn, childOut)
	if err != nil {
		closeAll(in, out)
		return nil, fmt.Errorf("start worker: %w", err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
		endGroup(p.cmd.Process.Pid)
	}()
	return p, nil
}

// greet waits for the hello of a new worker.
func (p *process) greet() error {
	limit := startTimeout
	if p.priority == low {
		limit *= 4
	}
	_ = p.out.SetReadDeadline(time.Now().Add(limit))
	f, err := p.answers.next(0)
	_ = p.out.SetReadDeadline(time.Time{})
	if err == nil && f.kind == hello {
		p.startup = p.cpu()
		return nil
	}
	if err == nil {
		err = errors.New("it does not say hello")
	}
	p.kill()
	return fmt.Errorf("start worker: %w%s", err, p.said())
}

// lower gives the process the low priority, which it keeps.
func (p *process) lower() {
	p.priority = low
	lowerGroup(p.cmd.Process.Pid)
}

// cpu returns the CPU time of the process, or the time of day where the CPU time is unknown.
func (p *process) cpu() time.Duration {
	select {
	case <-p.ended:
		if state := p.cmd.ProcessState; state != nil {
			return state.UserTime() + state.SystemTime()
		}
	default:
	}
	if used, ok := cpuOf(p.cmd.Process.Pid); ok {
		return used
	}
	return time.Since(p.started)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// bury kills a worker that has not answered, and determines why.
func (p *process) bury(err error) error {
	byItself := false
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) {
		// The worker may still be writing the reason for its end.
		select {
		case <-p.ended:
			byItself = true
		case <-time.After(time.Second):
		}
	}
	p.kill()
	text := p.said()
	// The Go runtime does not always notice that it got no memory. Other nil pointers would cause a
	// panic.
	for _, sign := range []string{"out of memory", "cannot allocate memory", "goroutine stack exceeds", ": SIGSEGV: segmentation violation"} {
		if strings.Contains(text, sign) {
			return ErrMemory
		}
	}
	if state := p.cmd.ProcessState; byItself && state != nil && state.String() == "signal: killed" {
		return fmt.Errorf("%w: killed by the system", ErrMemory)
	}
	return fmt.Errorf("%w: %w%s", ErrCrashed, err, text)
}

// kill kills the process. It may be called more than once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	closeAll(p.in, p.out)
}

// said returns the first line that an ended worker has written to its error output.
func (p *process) said() string {
	text := strings.TrimSpace(p.stderr.String())
	if first, _, more := strings.Cut(text, "\n"); more {
		text = first
	}
	if text == "" {
		return ""
	}
	return ": " + text
}
