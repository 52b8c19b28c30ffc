package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	day = 24 * time.Hour
	// began is when the terms of the tests begin, in seconds since 1970.
	began = 1_900_000_000
)

func exempting() rule.State {
	return rule.State{
		Policy: usher.PolicyRef{Kind: "ClusterPolicyExemption", Name: "e"}, UID: "u", Generation: 2,
		Compiled: true, Enforced: true, NeedsProof: true, Admission: true,
	}
}

// words returns the conditions of a status, as Type=Status(Reason).
func words(w report.Written) string {
	var all []string
	for _, c := range w.Conditions {
		all = append(all, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
	}
	return strings.Join(all, " ")
}

func TestStatusOfExemptions(t *testing.T) {
	t.Parallel()
	begin := time.Unix(began, 0)
	const valid, proven = "Valid=True(Valid)", " Proven=True(Proven)"
	for _, test := range []struct {
		reason  string
		expires time.Duration
		change  func(*rule.State, *rule.ExemptionState)
		days    int
		want    []string
	}{
		{reason: "in force, written once", expires: 90 * day, days: 20, want: []string{"0s " + valid + proven}},
		{
			reason: "a week before, a day before, and at the end", expires: 20 * day, days: 30,
			want: []string{
				"0s " + valid + proven,
				"312h0m0s " + valid + proven + " ExpiresSoon=True(ExpiresWithinAWeek) event ExpiresWithinAWeek",
				"456h0m0s " + valid + proven + " ExpiresSoon=True(ExpiresWithinADay) event ExpiresWithinADay",
				"480h0m0s Valid=False(Expired)" + proven + " event Expired",
			},
		},
		{
			reason: "one that is written for a week expires soon in its last day", expires: 7 * day, days: 8,
			want: []string{
				"0s " + valid + proven,
				"144h0m0s " + valid + proven + " ExpiresSoon=True(ExpiresWithinADay) event ExpiresWithinADay",
				"168h0m0s Valid=False(Expired)" + proven + " event Expired",
			},
		},
		{
			reason: "one that is written for 20 hours expires soon in the last tenth of its time", expires: 20 * time.Hour, days: 1,
			want: []string{
				"0s " + valid + proven,
				"18h0m0s " + valid + proven + " ExpiresSoon=True(ExpiresWithinADay) event ExpiresWithinADay",
				"20h0m0s Valid=False(Expired)" + proven + " event Expired",
			},
		},
		{
			reason: "one that is known for long, and is extended for two days", expires: 2 * day, days: 3,
			change: func(_ *rule.State, x *rule.ExemptionState) { x.Created = begin.Add(-90 * day) },
			want: []string{
				"0s " + valid + proven + " ExpiresSoon=True(ExpiresWithinAWeek)",
				"24h0m0s " + valid + proven + " ExpiresSoon=True(ExpiresWithinADay) event ExpiresWithinADay",
				"48h0m0s Valid=False(Expired)" + proven + " event Expired",
			},
		},
		{
			reason: "not used for 30 days", expires: 90 * day, days: 40,
			want: []string{"0s " + valid + proven, "720h0m0s " + valid + proven + " Unused=True(NotUsed)"},
		},
		{
			reason: "not proven", expires: 10 * day, days: 20,
			change: func(p *rule.State, _ *rule.ExemptionState) {
				p.Enforced, p.Unproven = false, "it has no proof"
				p.Problems = []rule.Problem{{Severity: rule.Error, What: "the right to write it is not proven"}}
			},
			want: []string{"0s Valid=False(NotEnforced) Proven=False(Unproven): the right to write it is not proven"},
		},
		{
			reason: "it does not compile", expires: 0, days: 2,
			change: func(p *rule.State, _ *rule.ExemptionState) {
				p.Enforced, p.Compiled = false, false
				p.Problems = []rule.Problem{{Severity: rule.Error, Field: "spec.subjects", What: "for nobody"}}
			},
			want: []string{"0s Valid=False(DoesNotCompile)" + proven + ": spec.subjects: for nobody"},
		},
		{
			reason: "API servers enforce the policy", expires: 90 * day, days: 40,
			change: func(_ *rule.State, x *rule.ExemptionState) { x.NotEffective = "API servers enforce it" },
			want:   []string{"0s Valid=False(NotEffective)" + proven + ": API servers enforce it"},
		},
		{
			reason: "what it names is not there", expires: 90 * day, days: 2,
			change: func(_ *rule.State, x *rule.ExemptionState) {
				x.Problems = []rule.Problem{{Severity: rule.Warning, Field: "spec.policyRefs[0]", What: "there is no such policy"}}
			},
			want: []string{"0s " + valid + proven + ": warning: there is no such policy"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p := exempting()
			x := rule.ExemptionState{Ref: p.Policy, UID: p.UID, Generation: p.Generation, Created: begin, Expires: begin.Add(test.expires)}
			if test.change != nil {
				test.change(&p, &x)
			}
			var got []string
			for _, w := range report.ExemptionTerm(t.Context(), report.Written{}, p, x, begin, time.Hour, 24*test.days, func(time.Duration) []report.Used { return nil }) {
				line := w.At.String() + " " + words(w)
				if w.Event != "" {
					line += " event " + w.Event
				}
				if w.LastError != "" && w.Event != "Expired" {
					line += ": " + w.LastError
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUsesOfExemptions counts over replicas and terms: what is written is the sum, at most every
// five minutes.
func TestUsesOfExemptions(t *testing.T) {
	t.Parallel()
	begin := time.Unix(began, 0)
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	last := func(d time.Duration) *metav1.Time { t := metav1.NewTime(at(d)); return &t }
	old, young := begin.Add(-time.Hour), begin.Add(time.Minute)
	for _, test := range []struct {
		reason string
		known  report.Written
		used   func(time.Duration) []report.Used
		want   []string
	}{
		{"no use", report.Written{}, func(time.Duration) []report.Used { return nil }, []string{"0s 0 -"}},
		{
			"one use is written at once", report.Written{},
			func(d time.Duration) []report.Used {
				if d < 2*time.Minute {
					return nil
				}
				return []report.Used{{Uses: 1, Last: at(2 * time.Minute)}}
			},
			[]string{"0s 0 -", "2m0s 1 2m0s"},
		},
		{
			"ten a minute are one write at once, and one every five minutes", report.Written{},
			func(d time.Duration) []report.Used {
				return []report.Used{{Uses: int64(10 * d / time.Minute), Last: at(d)}}
			},
			[]string{"0s 0 -", "1m0s 10 1m0s", "6m0s 60 6m0s", "11m0s 110 11m0s", "16m0s 160 16m0s"},
		},
		{
			"two replicas, one of which starts again and counts from 0", report.Written{},
			func(d time.Duration) []report.Used {
				other := report.Used{Replica: "b", Started: old, Uses: 7, Last: at(0)}
				if d >= time.Minute {
					other = report.Used{Replica: "b", Started: young, Uses: 3, Last: at(time.Minute)}
				}
				return []report.Used{{Uses: 5, Last: at(0)}, other}
			},
			[]string{"0s 12 0s", "5m0s 15 1m0s"},
		},
		{
			"what replicas counted before the term is in the status", report.Written{Uses: 100, LastUsed: last(-time.Minute)},
			func(d time.Duration) []report.Used {
				u := report.Used{Replica: "b", Started: old, Uses: 60, Last: at(-time.Minute)}
				if d >= 7*time.Minute {
					u.Uses, u.Last = 61, at(7*time.Minute)
				}
				return []report.Used{u}
			},
			[]string{"0s 100 -1m0s", "7m0s 101 7m0s"},
		},
		{
			"a replica whose clock is ahead", report.Written{},
			func(time.Duration) []report.Used {
				return []report.Used{{Replica: "b", Started: old, Uses: 1, Last: at(240 * time.Hour)}}
			},
			[]string{"0s 1 0s", "5m0s 1 5m0s", "10m0s 1 10m0s", "15m0s 1 15m0s"},
		},
		{
			"a forged status does not hide uses", report.Written{Uses: -5, LastUsed: last(9999 * time.Hour)},
			func(d time.Duration) []report.Used {
				if d < time.Minute {
					return nil
				}
				return []report.Used{{Uses: 2, Last: at(time.Minute)}}
			},
			[]string{"0s 0 -", "1m0s 2 1m0s"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p := exempting()
			x := rule.ExemptionState{Ref: p.Policy, UID: p.UID, Generation: p.Generation, Expires: begin.Add(90 * day)}
			var got []string
			for _, w := range report.ExemptionTerm(t.Context(), test.known, p, x, begin, time.Minute, 20, test.used) {
				text := "-"
				if w.LastUsed != nil {
					text = w.LastUsed.Sub(begin).String()
				}
				got = append(got, fmt.Sprintf("%s %d %s", w.At, w.Uses, text))
				if !meta.IsStatusConditionTrue(w.Conditions, "Valid") {
					t.Errorf("%s: %s", w.At, words(w))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
