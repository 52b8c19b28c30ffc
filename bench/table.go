package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// heading explains the columns of tables.
const heading = "| | verdict | ratio | target | CPU | requests/s | p50 | p99 | p99.9 | one connection | p50 | at half the rate: p50 | p99 | p99.9 | memory |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// writeTable writes the measurements as a table in Markdown.
func writeTable(w io.Writer, subjects []*subject) error {
	var b bytes.Buffer
	b.WriteString(heading)
	for _, s := range subjects {
		ratio := s.ratio()
		limit := ""
		if s.limit > 0 {
			// As it is printed.
			limit = fmt.Sprintf("≤ %.2f %s", s.limit, met(math.Round(100*ratio) <= 100*s.limit))
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %.0f | %s | %s | %s | %.0f | %s | %s | %s %s | %s | %.0f MB%s |\n",
			s.name, s.verdict(), ratio, limit, short(s.all.cpu),
			s.all.rate, short(s.all.p50), short(s.all.p99), short(s.all.p999),
			s.one.rate, short(s.one.p50),
			short(s.half.p50), short(s.half.p99), met(s.half.p99 <= mostTail*s.half.p50), short(s.half.p999),
			float64(s.memory)/1e6, s.memoryVerdict())
	}
	_, err := w.Write(b.Bytes())
	return err
}

// mostTail is how many times the latency of the median the 99th percentile may be at half the
// rate.
const mostTail = 3

// memoryVerdict compares the memory with the promise: 60 MB with 100 policies, and 20 MB more per
// 1,000.
func (s *subject) memoryVerdict() string {
	if s.reference != "" || s.count < 100 {
		return ""
	}
	limit := 60 + 20*float64(s.count-100)/1000
	return fmt.Sprintf(" ≤ %.0f %s", limit, met(float64(s.memory)/1e6 <= limit))
}

func met(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// ratio is the CPU time of a request in those of the ordinary webhook, that of the middle
// round; 0 if it is not known.
func (s *subject) ratio() float64 {
	if s.reference == ordinary {
		return 1
	}
	if len(s.ratios) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.ratios))
	return sorted[len(sorted)/2]
}

// short is a duration in three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3g µs", d.Seconds()*1e6)
}

// machine describes what this runs on in a line.
func machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(info), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = strings.TrimLeft(line, "\t: ")
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
