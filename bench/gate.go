package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// recordedFile has the recorded costs of decisions.
	recordedFile = "bench/recorded.json"
	// tolerance is how much worse a figure may be.
	tolerance = 1.2
	// attempts is how often a measurement that is too slow is repeated: other work on the machine
	// makes it slower, never faster.
	attempts = 8
	// rounds is how often all handlers take turns in an attempt, and calls how often each is
	// called in its turn.
	rounds = 7
	calls  = 400
)

// A cost is the cost of one request in a handler. None of it is an absolute time: machines differ.
type cost struct {
	// Ratio is CPU time, in those of the ordinary webhook, which are measured in turns.
	Ratio float64 `json:"ratio"`
	// Allocs and Bytes are allocated.
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`
}

// runGate measures the costs of decisions, in process, and compares them with the record.
func runGate(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	record := flags.Bool("record", false, "record what is measured instead of comparing with it")
	cpu := flags.Bool("cpu", true, "compare CPU time, too, which takes a machine that does nothing else")
	file := flags.String("recorded", recordedFile, "what is recorded")
	if err := flags.Parse(args); err != nil {
		return err
	}
	handlers, err := gatedHandlers()
	if err != nil {
		return err
	}
	body, err := review(7000)
	if err != nil {
		return err
	}
	if *record {
		// The median of several attempts is what most attempts can keep to.
		var all []map[string]cost
		for range attempts + 1 {
			all = append(all, measureCosts(handlers, body))
		}
		return writeRecorded(*file, median(all))
	}
	recorded, err := readRecorded(*file)
	if err != nil {
		return err
	}
	if !*cpu {
		recorded = withoutRatios(recorded)
	}
	return judge(os.Stdout, recorded, func() map[string]cost { return measureCosts(handlers, body) })
}

// withoutRatios ignores CPU time.
func withoutRatios(recorded map[string]cost) map[string]cost {
	lenient := map[string]cost{}
	for name, c := range recorded {
		c.Ratio = math.Inf(1)
		lenient[name] = c
	}
	return lenient
}

// judge measures and returns an error if the result is worse than the record. It measures again
// what is only too slow.
func judge(w io.Writer, recorded map[string]cost, measure func() map[string]cost) error {
	best := measure()
	for range attempts - 1 {
		worse := regressions(recorded, best)
		if len(worse) == 0 || slices.ContainsFunc(worse, func(text string) bool { return !strings.Contains(text, ": ratio ") }) {
			break
		}
		best = better(best, measure())
	}
	for _, name := range slices.Sorted(maps.Keys(best)) {
		if _, err := fmt.Fprintf(w, "%-34s ratio %5.2f (%5.2f)  allocations %6.0f (%6.0f)  bytes %7.0f (%7.0f)\n", name,
			best[name].Ratio, recorded[name].Ratio, best[name].Allocs, recorded[name].Allocs, best[name].Bytes, recorded[name].Bytes); err != nil {
			return err
		}
	}
	if worse := regressions(recorded, best); len(worse) > 0 {
		return fmt.Errorf("decisions cost more than a fifth more than recorded; make it cheaper, or say why and record it (make record):\n  %s",
			strings.Join(worse, "\n  "))
	}
	return nil
}

// measureCosts calls the handlers in turns and returns the cost of a request for each.
func measureCosts(handlers map[string]http.Handler, body []byte) map[string]cost {
	costs := map[string]cost{}
	cpu := map[string]time.Duration{}
	for range rounds {
		for name, h := range handlers {
			took, c := measureCost(h, body)
			if least, known := cpu[name]; !known || took < least {
				cpu[name] = took
			}
			costs[name] = cost{Allocs: least(costs[name].Allocs, c.Allocs), Bytes: least(costs[name].Bytes, c.Bytes)}
		}
	}
	for name, c := range costs {
		c.Ratio = float64(cpu[name]) / float64(cpu[ordinary])
		costs[name] = c
	}
	delete(costs, ordinary)
	return costs
}

// measureCost calls a handler in a turn. Garbage is collected outside of the time that is
// measured; how much there is of it is measured by itself.
func measureCost(h http.Handler, body []byte) (took time.Duration, c cost) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := ownCPU()
	for range calls {
		call(h, body)
	}
	took = ownCPU() - start
	runtime.ReadMemStats(&after)
	return took, cost{
		Allocs: float64(after.Mallocs-before.Mallocs) / calls,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / calls,
	}
}

func call(h http.Handler, body []byte) {
	r := httptest.NewRequest(http.MethodPost, "/?timeout=10s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func least(a, b float64) float64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// better takes the better figures of two measurements.
func better(a, b map[string]cost) map[string]cost {
	best := map[string]cost{}
	for name := range a {
		best[name] = cost{
			Ratio: min(a[name].Ratio, b[name].Ratio), Allocs: min(a[name].Allocs, b[name].Allocs), Bytes: min(a[name].Bytes, b[name].Bytes),
		}
	}
	return best
}

func median(all []map[string]cost) map[string]cost {
	middle := map[string]cost{}
	for name := range all[0] {
		of := func(figure func(cost) float64) float64 {
			figures := make([]float64, len(all))
			for i := range all {
				figures[i] = figure(all[i][name])
			}
			slices.Sort(figures)
			return math.Round(1000*figures[len(figures)/2]) / 1000
		}
		middle[name] = cost{
			Ratio:  of(func(c cost) float64 { return c.Ratio }),
			Allocs: of(func(c cost) float64 { return math.Round(c.Allocs) }),
			Bytes:  of(func(c cost) float64 { return math.Round(c.Bytes) }),
		}
	}
	return middle
}

// regressions lists what is worse than recorded by more than the tolerance, and what is not
// recorded.
func regressions(recorded, measured map[string]cost) []string {
	var worse []string
	for name, got := range measured {
		was, known := recorded[name]
		if !known {
			worse = append(worse, name+": not recorded")
			continue
		}
		for _, figure := range []struct {
			what     string
			was, got float64
		}{{"ratio", was.Ratio, got.Ratio}, {"allocations", was.Allocs, got.Allocs}, {"bytes", was.Bytes, got.Bytes}} {
			if figure.got > figure.was*tolerance {
				worse = append(worse, fmt.Sprintf("%s: %s %.2f, recorded %.2f", name, figure.what, figure.got, figure.was))
			}
		}
	}
	for name := range recorded {
		if _, exists := measured[name]; !exists {
			worse = append(worse, name+": recorded, but not measured")
		}
	}
	slices.Sort(worse)
	return worse
}

func readRecorded(file string) (map[string]cost, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what is recorded (run this in the root of the project): %w", err)
	}
	var recorded map[string]cost
	if err := json.Unmarshal(content, &recorded); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(recorded) == 0 {
		return nil, errors.New("nothing is recorded")
	}
	return recorded, nil
}

func writeRecorded(file string, costs map[string]cost) error {
	content, err := json.MarshalIndent(costs, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}
