package load

import (
	"errors"
	"math/bits"
	"time"
)

// A Measurement is the result of the requests of one [Generator.Run].
type Measurement struct {
	// Elapsed is until the last answer.
	Elapsed time.Duration
	// Answered counts the good answers, and Verdicts what they say; Bodies has one of each.
	Answered int
	Verdicts map[string]int
	Bodies   map[string][]byte
	// Errors counts the others by kind; Samples has one of each kind.
	Errors  map[string]int
	Samples map[string]error
	// Unsent counts the requests of an open loop for which no connection was free.
	Unsent int
	// Latency is that of the good answers.
	Latency Histogram
}

func newMeasurement() *Measurement {
	return &Measurement{Verdicts: map[string]int{}, Bodies: map[string][]byte{}, Errors: map[string]int{}, Samples: map[string]error{}}
}

func (r *Measurement) add(verdict string, err error, took time.Duration) {
	if err != nil {
		kind := "other"
		if e, ok := errors.AsType[*Error](err); ok {
			kind = e.Kind
		}
		r.Errors[kind]++
		r.Samples[kind] = err
		return
	}
	r.Answered++
	r.Verdicts[verdict]++
	r.Latency.Add(took)
}

// Failed counts the requests that were sent and got no good response.
func (r *Measurement) Failed() int {
	n := 0
	for _, count := range r.Errors {
		n += count
	}
	return n
}

// Rate is how many good answers came in a second.
func (r *Measurement) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Elapsed.Seconds()
}

// Merge returns results of several runs as one.
func Merge(results ...*Measurement) *Measurement {
	total := newMeasurement()
	for _, r := range results {
		total.merge(r)
		total.Elapsed += r.Elapsed
		total.Unsent += r.Unsent
	}
	return total
}

func (r *Measurement) merge(other *Measurement) {
	r.Answered += other.Answered
	for verdict, n := range other.Verdicts {
		r.Verdicts[verdict] += n
		r.Bodies[verdict] = other.Bodies[verdict]
	}
	for kind, n := range other.Errors {
		r.Errors[kind] += n
		r.Samples[kind] = other.Samples[kind]
	}
	r.Latency.merge(&other.Latency)
}

// precision is how many buckets a histogram has for each doubling.
const precision = 64

// A Histogram counts durations, each to within 1.6 %. The zero value is empty.
type Histogram struct {
	counts [58 * precision]int
	total  int
	max    time.Duration
}

// bucket is where a duration in nanoseconds is counted: by itself below 128, else by its
// first seven bits.
func bucket(ns uint64) int {
	shift := max(bits.Len64(ns)-7, 0)
	return shift*precision + int(ns>>shift)
}

// upper is the longest duration of a bucket.
func upper(bucket int) time.Duration {
	if bucket < 2*precision {
		return time.Duration(bucket)
	}
	shift := bucket/precision - 1
	return time.Duration((bucket-shift*precision+1)<<shift - 1)
}

// Add counts a duration, a negative one as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.total++
	h.max = max(h.max, d)
}

func (h *Histogram) merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// Count returns how many durations there are.
func (h *Histogram) Count() int { return h.total }

// Max returns the longest.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that a part q of all, such as 0.99, does not exceed; 0 if
// there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(int(q*float64(h.total)+0.999999), 1)
	seen := 0
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}
