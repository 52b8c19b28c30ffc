package observe

import (
	"bytes"
	"time"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// Lines returns decisions as usher watch prints them, and PastLines as it does with --once.
func Lines(decisions []*recent.Decision) (string, error) { return linesOf(decisions, &watchFlags{}) }

// PastLines: see [Lines].
func PastLines(decisions []*recent.Decision) (string, error) {
	return linesOf(decisions, &watchFlags{once: true})
}

func linesOf(decisions []*recent.Decision, flags *watchFlags) (string, error) {
	var out bytes.Buffer
	p := &printer{flags: flags, streams: cli.Streams{Out: &out, Err: &out}}
	for _, d := range decisions {
		if err := p.print(served.Item{Decision: d}); err != nil {
			return "", err
		}
	}
	err := p.end()
	return out.String(), err
}

// LookAt returns what usher status says about decisions, of a replica at a URL: of policies of a cluster, the headline,
// how many decisions are outdated, and what to look at.
func LookAt(decisions []*recent.Decision, policies ...api.Policy) (headline string, outdated int, all []string) {
	f := &statusFlags{replicas: replica.Flags{Servers: []string{"https://127.0.0.1:8445"}, CAFile: "my ca.crt", Namespace: cluster.DefaultNamespace}}
	r := &statusReport{Decisions: &decisionCounts{}}
	r.listed = len(policies) > 0
	var last []served.Item
	for _, d := range decisions {
		last = append(last, served.Item{Decision: d})
	}
	f.count(r, last, policies)
	for _, l := range r.LookAt {
		all = append(all, l.Policy.String()+": "+l.What+": "+l.Run)
	}
	return r.refusesMost, r.Decisions.Outdated, all
}

// LastDecision is the last decision as usher status prints it.
func LastDecision(d *recent.Decision) string { return lastDecision(d) }

// Since returns what --since means at a time, and how that time is printed then.
func Since(text string, now time.Time) (ago time.Duration, shown string, err error) {
	var s since
	err = s.set(text, now)
	return time.Duration(s.Duration), s.clock(now), err
}
