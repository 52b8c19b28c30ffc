package openreports

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/audit/result"
)

// A space is what is known about the reports of a namespace, or about ClusterReports.
type space struct {
	name string
	// slices are the reports in the cluster, and those to be created, by number.
	slices map[int]*slice
	// taken are the numbers of reports that are not Usher's.
	taken map[int]bool
	// results are the results in reports, and those that are to be.
	results map[key]*placement
	// counts are of all results about the namespace, and omitted is how many of them are in no
	// report because there are more than share. want is how many there would be.
	counts               result.Summary
	want, share, omitted int

	// due is when the reports are compared with the results; zero if that need not be. They are
	// read before, if unsure says that they may not be what is known of them.
	due    time.Time
	unsure bool
	// last is the number of the report that was written last.
	last int
	// wrote is when a report was written, and gap the least time until the next one is.
	wrote time.Time
	gap   time.Duration
	// blocked is why a report could not be written; tries counts attempts since it could.
	blocked error
	tries   int
}

// A placement is where a result is reported, and since when.
type placement struct {
	// slice is 0 if the result is in no report yet.
	slice  int
	since  int64
	kind   schema.GroupKind
	status result.Status
	// kept says that only reports have the result: the audit has not said it since this replica
	// leads.
	kept bool
}

// A slice is one report.
type slice struct {
	// stored identifies the version in the cluster; empty if there is none.
	stored metav1.ObjectMeta
	// results and head are digests of what is stored: of the results, and of the rest.
	results, head digest
}

type digest [16]byte

func newSpace(name string) *space {
	return &space{name: name, slices: map[int]*slice{}, taken: map[int]bool{}, results: map[key]*placement{}}
}

// schedule has the reports compared with the results at a time, or earlier if that is planned.
func (s *space) schedule(at time.Time) {
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

// forget forgets what is in the cluster, but not since when results have been reported.
func (s *space) forget() {
	s.slices, s.unsure = map[int]*slice{}, false
	for _, p := range s.results {
		p.slice, p.kept = 0, false
	}
}

// load adds reports that are in the cluster, in the order of their numbers.
func (s *space) load(reports []*Report) {
	numbers := map[*Report]int{}
	for _, r := range reports {
		if n, ok := number(&r.ObjectMeta); ok {
			numbers[r] = n
		}
	}
	reports = slices.SortedFunc(maps.Keys(numbers), func(a, b *Report) int { return cmp.Compare(numbers[a], numbers[b]) })
	seen := keys{}
	for _, r := range reports {
		n := numbers[r]
		stored := &slice{stored: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion}}
		s.slices[n] = stored
		sound := true
		for i := range r.Results {
			sound = s.loadResult(&r.Results[i], n, seen) && sound
		}
		if sound {
			stored.results, stored.head = s.digest(n), headOf(r)
		}
	}
}

// loadResult adds a result of a report in the cluster, unless Usher cannot have written it.
func (s *space) loadResult(r *Result, n int, seen keys) bool {
	if !isSound(r, s.name) {
		return false
	}
	s.results[seen.of(*r)] = &placement{slice: n, since: r.Timestamp.Seconds, kind: kindOf(r), status: r.Result, kept: true}
	return r.Timestamp.Nanos == 0
}

// in returns the keys of the results in a slice, sorted.
func (s *space) in(n int) []key {
	var in []key
	for k, p := range s.results {
		if p.slice == n {
			in = append(in, k)
		}
	}
	slices.SortFunc(in, compareKeys)
	return in
}

func compareKeys(a, b key) int { return bytes.Compare(a[:], b[:]) }

// digest returns the digest of the results that are placed in a slice.
func (s *space) digest(n int) digest {
	var text []byte
	for _, k := range s.in(n) {
		text = binary.BigEndian.AppendUint64(append(text, k[:]...), uint64(s.results[k].since))
	}
	return newDigest(append(text, 1))
}

func newDigest(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(sum[:len(digest{})])
}

// headOf returns the digest of a report without the results and without what API servers add.
func headOf(r *Report) digest {
	head := Report{TypeMeta: r.TypeMeta, Source: r.Source, Configuration: r.Configuration, Summary: r.Summary}
	head.Labels, head.Annotations, head.Name = r.Labels, r.Annotations, r.Name
	text, _ := json.Marshal(head) //nolint:errchkjson // strings, numbers and maps of strings
	return newDigest(text)
}

// head returns a slice as it is to be, without the results.
func (s *space) head(n int) *Report {
	r := &Report{
		TypeMeta: metav1.TypeMeta{APIVersion: groupVersion, Kind: "Report"}, Source: Source,
		Configuration: &Configuration{Limits: Limits{MaxResults: perReport, StatusFilter: reported()}},
		ObjectMeta:    metav1.ObjectMeta{Namespace: s.name, Name: nameOf(n), Labels: map[string]string{ManagedByLabel: Source}},
	}
	if s.name == "" {
		r.Kind = "ClusterReport"
	}
	if known := s.slices[n]; known != nil {
		r.UID, r.ResourceVersion = known.stored.UID, known.stored.ResourceVersion
	}
	first := n == s.first()
	if first {
		r.Summary = s.counts
		if s.omitted > 0 {
			r.Annotations = map[string]string{OmittedAnnotation: strconv.Itoa(s.omitted)}
		}
	}
	for _, p := range s.results {
		switch {
		case first && p.slice != n && p.slice != 0:
			r.Summary.Add(p.status, -1)
		case !first && p.slice == n:
			r.Summary.Add(p.status, 1)
		}
	}
	// The counts may be older than the results of other slices.
	r.Summary.Fail, r.Summary.Warn, r.Summary.Error = max(r.Summary.Fail, 0), max(r.Summary.Warn, 0), max(r.Summary.Error, 0)
	return r
}

// first returns the least number of a slice; 0 if there is none.
func (s *space) first() int {
	first := 0
	for n := range s.slices {
		if first == 0 || n < first {
			first = n
		}
	}
	return first
}

// fill returns how many results each slice has.
func (s *space) fill() map[int]int {
	fill := make(map[int]int, len(s.slices))
	for n := range s.slices {
		fill[n] = 0
	}
	for _, p := range s.results {
		if p.slice != 0 {
			fill[p.slice]++
		}
	}
	return fill
}
