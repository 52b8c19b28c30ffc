package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRegressions(t *testing.T) {
	t.Parallel()
	recorded := map[string]cost{"a": {Ratio: 1, Allocs: 100, Bytes: 1000}, "b": {Ratio: 2, Allocs: 10, Bytes: 10}}
	tests := []struct {
		reason string
		change func(map[string]cost)
		want   []string
	}{
		{"the same", func(map[string]cost) {}, nil},
		{"a little worse", func(m map[string]cost) { m["a"] = cost{Ratio: 1.19, Allocs: 119, Bytes: 1199} }, nil},
		{"better", func(m map[string]cost) { m["a"] = cost{Ratio: .1, Allocs: 1, Bytes: 1} }, nil},
		{"slower", func(m map[string]cost) { m["a"] = cost{Ratio: 1.21, Allocs: 100, Bytes: 1000} }, []string{"a: ratio 1.21, recorded 1.00"}},
		{
			"more garbage", func(m map[string]cost) { m["b"] = cost{Ratio: 2, Allocs: 13, Bytes: 13} },
			[]string{"b: allocations 13.00, recorded 10.00", "b: bytes 13.00, recorded 10.00"},
		},
		{"a new one", func(m map[string]cost) { m["c"] = cost{} }, []string{"c: not recorded"}},
		{"one is gone", func(m map[string]cost) { delete(m, "a") }, []string{"a: recorded, but not measured"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			measured := maps.Clone(recorded)
			test.change(measured)
			if diff := cmp.Diff(test.want, regressions(recorded, measured)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Without CPU time a slow machine is no regression, and garbage still is.
func TestRatiosAreLeftOut(t *testing.T) {
	t.Parallel()
	recorded := withoutRatios(map[string]cost{"a": {Ratio: 1, Allocs: 100, Bytes: 1000}})
	if worse := regressions(recorded, map[string]cost{"a": {Ratio: 50, Allocs: 100, Bytes: 1000}}); len(worse) > 0 {
		t.Errorf("a slow machine: %v", worse)
	}
	want := []string{"a: allocations 200.00, recorded 100.00"}
	if diff := cmp.Diff(want, regressions(recorded, map[string]cost{"a": {Ratio: 50, Allocs: 200, Bytes: 1000}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// gated returns the handlers that are gated and what they are asked. The test goes on in
// the root of the project.
func gated(t testing.TB) (map[string]http.Handler, []byte) {
	t.Helper()
	t.Chdir("..")
	handlers, err := gatedHandlers()
	if err != nil {
		t.Fatal(err)
	}
	body, err := review(7000)
	if err != nil {
		t.Fatal(err)
	}
	return handlers, body
}

// What is gated is what is recorded in the project, and its allocations are what was
// recorded: they are the same on every machine. A handler that does its work twice is
// caught.
func TestTheGateShuts(t *testing.T) {
	handlers, body := gated(t)
	recorded, err := readRecorded(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{ordinary: true}
	for name := range recorded {
		names[name] = true
	}
	for name := range handlers {
		if !names[name] {
			t.Errorf("%s is not recorded: make record", name)
		}
	}
	const name = "1 template"
	_, once := measureCost(handlers[name], body)
	_, twice := measureCost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		handlers[name].ServeHTTP(w, again)
		handlers[name].ServeHTTP(w, r)
	}), body)
	was := map[string]cost{name: {Ratio: 1, Allocs: once.Allocs, Bytes: once.Bytes}}
	if worse := regressions(was, map[string]cost{name: {Ratio: 1, Allocs: once.Allocs, Bytes: once.Bytes}}); len(worse) > 0 {
		t.Errorf("the same is worse: %v", worse)
	}
	if worse := regressions(was, map[string]cost{name: {Ratio: 1, Allocs: twice.Allocs, Bytes: twice.Bytes}}); len(worse) != 2 {
		t.Errorf("twice the work is found worse in %v", worse)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	good := map[string]cost{"a": {Ratio: 1, Allocs: 100, Bytes: 1000}}
	slow := map[string]cost{"a": {Ratio: 3, Allocs: 100, Bytes: 1000}}
	wasteful := map[string]cost{"a": {Ratio: 1, Allocs: 200, Bytes: 1000}}
	tests := []struct {
		reason  string
		results []map[string]cost
		asked   int
		want    string
	}{
		{"good at once", []map[string]cost{good}, 1, ""},
		{"slow by chance", []map[string]cost{slow, slow, good}, 3, ""},
		{"slow for good", append(slices.Repeat([]map[string]cost{slow}, attempts), good), attempts, "a: ratio 3.00, recorded 1.00"},
		{"wasteful, which is no chance", []map[string]cost{wasteful, good}, 1, "a: allocations 200.00, recorded 100.00"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			asked := 0
			err := judge(io.Discard, good, func() map[string]cost {
				asked++
				return test.results[asked-1]
			})
			if asked != test.asked {
				t.Errorf("measured %d times, want %d", asked, test.asked)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
