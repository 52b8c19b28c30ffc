package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// heading says what the columns of tables are.
const heading = "| | verdict | ratio | target | CPU | requests/s | p50 | p99 | p99.9 | one connection | p50 | at half the rate: p50 | p99 | p99.9 | memory |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// writeTable writes what was measured as a table in Markdown. Subjects hold the ordinary
// webhook.
func writeTable(w io.Writer, subjects []*subject) error {
	var b bytes.Buffer
	b.WriteString(heading)
	unit := ordinaryCPU(subjects)
	for _, s := range subjects {
		ratio := s.ratio(unit)
		limit := ""
		if s.limit > 0 {
			limit = fmt.Sprintf("≤ %.2f %s", s.limit, met(ratio <= s.limit))
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %.0f | %s | %s | %s | %.0f | %s | %s | %s | %s | %.0f MB |\n",
			s.name, s.verdict(), ratio, limit, short(s.all.cpu),
			s.all.rate, short(s.all.p50), short(s.all.p99), short(s.all.p999),
			s.one.rate, short(s.one.p50),
			short(s.half.p50), short(s.half.p99), short(s.half.p999), float64(s.memory)/1e6)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func met(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// ordinaryCPU is what a request costs the ordinary webhook.
func ordinaryCPU(subjects []*subject) time.Duration {
	for _, s := range subjects {
		if s.reference == ordinary {
			return s.all.cpu
		}
	}
	return 0
}

// ratio is the CPU of a request in those of the ordinary webhook, 0 if it is not known.
func (s *subject) ratio(unit time.Duration) float64 {
	if unit == 0 {
		return 0
	}
	return float64(s.all.cpu) / float64(unit)
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
