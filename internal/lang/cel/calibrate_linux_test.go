package cel_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/hostile"
	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

var (
	calibrate = flag.Duration("calibrate", 0, "compare what calls take with what they are estimated to take, each for that long at most")
	calls     = flag.String("calls", "", "only calls with this text")
)

// An activation has variables, and a meter.
type activation struct {
	values map[string]any
	meter  meter.Meter
	frame  cel.Frame
}

func (a *activation) ResolveName(name string) (any, bool) {
	if value, ok := a.values[name]; ok {
		return value, true
	}
	return a.meter.ResolveName(name)
}

func (a *activation) Parent() interpreter.Activation { return nil }
func (a *activation) Frame() *cel.Frame              { return &a.frame }
func (a *activation) Meter() *meter.Meter            { return &a.meter }

// A measurement is what a call took, and what it was estimated to take.
type measurement struct {
	nanos, estimatedNanos int64
	bytes, estimatedBytes int64
	err                   error
}

// measure evaluates a program. Nothing else runs on the thread.
func measure(p *cel.Program, values map[string]any) (ref.Val, measurement) {
	var value ref.Val
	var m measurement
	for i := range 3 {
		a := &activation{values: values}
		a.meter.Allowance = allowance.New(allowance.NamespaceTime, allowance.PolicyMemory)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := threadTime()
		spent, held := a.meter.Within(time.Hour, func() { value, _, m.err = p.Eval(a) })
		took := threadTime() - start
		runtime.ReadMemStats(&after)
		m.estimatedNanos, m.estimatedBytes, m.bytes = int64(spent), held, int64(after.TotalAlloc-before.TotalAlloc)
		if i == 0 || took < m.nanos {
			m.nanos = took
		}
	}
	return value, m
}

// threadTime is the processor time of the thread, in nanoseconds.
func threadTime() int64 {
	const thread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// inputs are what expressions about hostile values read.
func inputs() map[string]any {
	text := strings.Repeat("a", 200_000)
	finalizers, owners, labels := make([]any, 5000), make([]any, 1000), map[string]any{}
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf("example.com/%015d", i)
		labels[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
	}
	for i := range owners {
		owners[i] = map[string]any{"apiVersion": "v1", "kind": "Pod", "name": fmt.Sprint("web-", i), "uid": fmt.Sprint(i), "controller": false}
	}
	object := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "web", "labels": labels, "finalizers": finalizers, "ownerReferences": owners},
		"data": map[string]any{
			"text": text, "half": text[:100_000], "pattern": "x{1000}(a*)*b", "digits": "999999999", "nines": strings.Repeat("9", 20_000),
			"combining": strings.Repeat("e\u0301\u0302", 20_000), "controls": strings.Repeat("\x00\x1b\"\\\u202e", 20_000), "bytes": strings.Repeat("\xc3\xbf", 10_000),
		},
	}
	return map[string]any{
		"object": object, "oldObject": object,
		"request":         map[string]any{"userInfo": map[string]any{"username": "jane", "groups": finalizers, "extra": map[string]any{"a": finalizers}}},
		"namespaceObject": map[string]any{"metadata": map[string]any{"labels": map[string]any{"text": text}}},
	}
}

// TestCalibrate measures calls with hostile values, and reports those that take more than was estimated.
func TestCalibrate(t *testing.T) { //nolint:paralleltest // it measures
	if *calibrate == 0 {
		t.Skip("-args -calibrate 2s")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var variables []celgo.EnvOption
	for _, name := range []string{"object", "oldObject", "request", "namespaceObject", "a", "b", "c", "d"} {
		variables = append(variables, celgo.Variable(name, celgo.DynType))
	}
	env, err := cel.Kubernetes(environment.VersionedOptions{EnvOptions: append(variables, library.JSONPatch())})
	if err != nil {
		t.Fatal(err)
	}
	in := inputs()
	known := map[string]ref.Val{}
	value := func(text string) ref.Val {
		if v, ok := known[text]; ok {
			return v
		}
		known[text] = nil
		if p := plan(env, hostile.Small(text)); p != nil {
			if v, m := measure(p, in); m.err == nil {
				known[text] = v
			}
		}
		return known[text]
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, f := range hostile.Forms(env.Functions()) {
		if !strings.Contains(f.String(), *calls) {
			continue
		}
		p := plan(env, f.With("a", "b", "c", "d"))
		if p == nil {
			t.Logf("%s: not compiled", f)
			continue
		}
		report(t, f, p, value, random)
	}
}

func report(t *testing.T, f hostile.Form, p *cel.Program, value func(string) ref.Val, random *rand.Rand) {
	t.Helper()
	var slow, large float64
	var slowest, largest string
	tried, refused := 0, 0
	for end := time.Now().Add(*calibrate); time.Now().Before(end) && tried < 300; {
		values, names := map[string]any{}, ""
		for i, kind := range f.Arguments() {
			all := hostile.Values(kind)
			if len(all) == 0 {
				return
			}
			text := all[random.IntN(len(all))]
			values[string(rune('a'+i))] = value(text)
			if value(text) == nil {
				values = nil
				break
			}
			names += " | " + text
		}
		tried++
		if values == nil {
			continue
		}
		_, m := measure(p, values)
		if meter.IsStopped(m.err) {
			refused++
			continue
		}
		if r := float64(m.nanos) / float64(max(m.estimatedNanos, 1)); m.nanos > 50_000 && r > slow {
			slow, slowest = r, fmt.Sprintf("%v for %v:%s", time.Duration(m.nanos), time.Duration(m.estimatedNanos), names)
		}
		// What walks through a value makes less than a byte each nanosecond, and drops it.
		if r := float64(m.bytes) / float64(max(m.estimatedBytes, 1)); m.bytes > 64<<10 && m.bytes > m.estimatedNanos && r > large {
			large, largest = r, fmt.Sprintf("%d kB for %d kB:%s", m.bytes>>10, m.estimatedBytes>>10, names)
		}
		if len(f.Arguments()) == 0 {
			break
		}
	}
	mark := ""
	if slow > 3 || large > 2 {
		mark = "!! "
	}
	t.Logf("%s%s: %d calls, %d refused, time ×%.2f (%.250s), memory ×%.2f (%.250s)", mark, f, tried, refused, slow, slowest, large, largest)
}

// plan makes a program; nil if the expression has errors.
func plan(env *cel.Environment, text string) *cel.Program {
	ast, issues, err := env.Check(&cel.Budget{}, text)
	if err != nil || issues.Err() != nil {
		return nil
	}
	p, err := env.Plan(ast)
	if err != nil {
		return nil
	}
	return p
}
