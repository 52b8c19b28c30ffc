// Package worker runs functions in separate processes, which can be killed when they take too long,
// and which have a memory limit.
//
// A worker is another process of the same program. It reads requests from its standard input and
// writes answers to its standard output, one at a time, whatever their kind. Programs with workers
// must call [Main] at the start of main.
package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// name is the only argument of a worker, and what ps shows.
	name = "usher-worker"
	// memoryVariable and kindsVariable are the only variables in the environment of a worker: its memory
	// in bytes, and the kinds of requests to prepare for.
	memoryVariable = "USHER_WORKER_MEMORY"
	kindsVariable  = "USHER_WORKER_KINDS"
	// largestRequest and largestAnswer limit the size of messages in each direction.
	largestRequest = 32 << 20
	largestAnswer  = 4 << 20
)

// A Kind says what a request is about, and so which handler answers it.
type Kind byte

const (
	// CUE is the kind of requests to evaluate CUE.
	CUE Kind = 'c'
	// Policies is the kind of requests to compile and try policies.
	Policies Kind = 'p'
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case CUE:
		return "cue"
	case Policies:
		return "policies"
	}
	return string(rune(k))
}

// A Handler answers the requests of a kind.
type Handler struct {
	// Prepare, unless nil, does what the first request would otherwise take longer for. It runs when a
	// worker starts, if there were requests of the kind, and does not count against any tenant.
	Prepare func()
	// Answer answers a request. Its argument and its result belong to it and to the caller, respectively,
	// until the next call.
	Answer func(request []byte) []byte
}

// installed are the handlers when Main has returned: this shows that the program can be started as a
// worker.
var installed atomic.Pointer[map[Kind]Handler]

// Installed reports whether the program has called [Main], with a handler for this kind of requests.
func Installed(kind Kind) bool {
	handlers := installed.Load()
	return handlers != nil && (*handlers)[kind].Answer != nil
}

// Main turns the process into a worker if it was started as one: it answers requests by the handler
// of their kind, and does not return. In all other processes it returns at once.
func Main(handlers map[Kind]Handler) {
	memory, err := strconv.ParseInt(os.Getenv(memoryVariable), 10, 64)
	if len(os.Args) != 1 || os.Args[0] != name || err != nil {
		installed.Store(&handlers)
		return
	}
	confine(memory)
	runtime.GOMAXPROCS(1)
	debug.SetMemoryLimit(memory - memory/4)
	debug.SetMaxStack(int(memory / 4))
	out := os.Stdout
	// Output that is printed by accident must not become an answer.
	os.Stdout = os.Stderr
	go watchParent()
	for _, kind := range []byte(os.Getenv(kindsVariable)) {
		if prepare := handlers[Kind(kind)].Prepare; prepare != nil {
			prepare()
		}
	}
	if err := serve(os.Stdin, out, handlers, held()+memory/2); err != nil {
		_, _ = io.WriteString(os.Stderr, "worker: "+err.Error()+"\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers requests until in ends. If the process holds more than mostHeld bytes after an
// answer, it marks that answer as its last.
func serve(in io.Reader, out io.Writer, handlers map[Kind]Handler, mostHeld int64) error {
	if _, err := out.Write(encodeFrame(frame{kind: hello})); err != nil {
		return err
	}
	requests := newFrames(in)
	for {
		f, err := requests.next(largestRequest)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		handle := handlers[Kind(f.kind)].Answer
		if handle == nil {
			return fmt.Errorf("a request of the unknown kind %q", f.kind)
		}
		reply := frame{id: f.id, kind: answer, payload: handle(f.payload)}
		if held() > mostHeld {
			reply.kind = lastAnswer
		}
		if _, err := out.Write(encodeFrame(reply)); err != nil {
			return err
		}
	}
}

// watchParent ends the process when its parent has ended, because nothing waits for its answers
// then. Linux does that immediately.
func watchParent() {
	parent := os.Getppid()
	for os.Getppid() == parent {
		time.Sleep(5 * time.Second)
	}
	os.Exit(0)
}

// CPU returns the CPU time of the process, or the time of day where the CPU time is unknown. It is
// for computing differences.
func CPU() time.Duration {
	if used, ok := cpuOf(os.Getpid()); ok {
		return used
	}
	return time.Duration(time.Now().UnixNano())
}

// held returns how many bytes of memory the process has, as far as the Go runtime knows.
func held() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() - sample[1].Value.Uint64())
}
