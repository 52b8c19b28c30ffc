package cue

import (
	"runtime/metrics"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/rule"
)

// Main lets CUE's evaluator run in separate processes, which are this program started again. Call
// it first in main, before anything with an effect: in such a process it does not return. In tests,
// call it in TestMain.
//
// A program that does not call it runs CUE as closures only, unless it allows [InProcess]. One that
// compiles policies of others has more to do there: see package trial/isolated.
func Main() { worker.Main(map[worker.Kind]worker.Handler{worker.CUE: Handler()}) }

// Handler returns what answers requests of the kind [worker.CUE].
func Handler() worker.Handler {
	s := newServer()
	return worker.Handler{Answer: s.handle}
}

// A server answers requests, one after the other. It keeps the programs that it has been sent.
type server struct {
	programs map[string]*kept
	clock    int64
	bytes    int
}

type kept struct {
	native *native
	bytes  int
	used   int64
}

const (
	// mostKept and mostBytesKept limit the programs that a worker keeps, by the length of their
	// sources: a program takes about a hundred times as much.
	mostKept      = 200
	mostBytesKept = 512 << 10
)

func newServer() server { return server{programs: map[string]*kept{}} }

func (s *server) handle(data []byte) []byte {
	var r request
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &r); err != nil {
		return (&response{Error: "read the request: " + err.Error()}).encode()
	}
	return s.answer(&r).encode()
}

func (s *server) answer(r *request) *response {
	n, answer := s.native(r)
	if n == nil {
		return answer
	}
	return n.answer(r)
}

// native returns the program for a request, or else the response.
func (s *server) native(r *request) (*native, *response) {
	s.clock++
	if r.Check {
		n, problems := checkWithinReason(r.Source, r.Form)
		if n != nil {
			s.keep(r, n)
		}
		return nil, &response{Problems: problems}
	}
	if known, ok := s.programs[r.Key]; ok {
		known.used = s.clock
		return known.native, nil
	}
	if r.Source == "" {
		return nil, &response{Unknown: true}
	}
	n, err := nativeOf(r.Source, r.Form)
	if err != nil {
		return nil, &response{Error: err.Error()}
	}
	s.keep(r, n)
	return n, nil
}

func (n *native) answer(r *request) *response {
	var output any
	if r.Output != nil {
		output = r.Output
	}
	return responseOf(n.run(r.Input, output))
}

// keep keeps a program, and drops those that have not been used for longest.
func (s *server) keep(r *request, n *native) {
	if old, ok := s.programs[r.Key]; ok {
		s.bytes -= old.bytes
	}
	k := &kept{native: n, bytes: len(r.Source), used: s.clock}
	delete(s.programs, r.Key)
	s.bytes += k.bytes
	for len(s.programs) >= mostKept || len(s.programs) > 0 && s.bytes > mostBytesKept {
		oldest := ""
		for key, program := range s.programs {
			if oldest == "" || program.used < s.programs[oldest].used {
				oldest = key
			}
		}
		s.bytes -= s.programs[oldest].bytes
		delete(s.programs, oldest)
	}
	s.programs[r.Key] = k
}

const (
	// longestAnalysis and largestAnalysis bound what the parent does with a source, which does it
	// unbounded, but only after a worker has done the same.
	longestAnalysis = 150 * time.Millisecond
	largestAnalysis = 64 << 20
)

// checkWithinReason checks a source, and that the uses that the parent has for it take neither too
// long nor too much memory.
func checkWithinReason(source string, form Form) (*native, []rule.Problem) {
	c := &compilation{source: source, form: form}
	begin, used, before := time.Now(), worker.CPU(), allocated()
	if _, problems := analyse(source, form); len(problems) > 0 {
		return nil, problems
	}
	// On a busy machine time goes by without it, and in process others use the processor, too.
	if min(time.Since(begin), worker.CPU()-used) > longestAnalysis || allocated()-before > largestAnalysis {
		c.fail("it is too entangled to find out what it reads", "simplify it, or split the rule")
		return nil, c.problems
	}
	return check(source, form)
}

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
