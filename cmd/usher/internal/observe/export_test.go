package observe

import (
	"bytes"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/observe/recent"
)

// Lines returns decisions as usher watch prints them.
func Lines(decisions []*recent.Decision) (string, error) {
	var out bytes.Buffer
	p := &printer{flags: &watchFlags{}, streams: cli.Streams{Out: &out, Err: &out}}
	for _, d := range decisions {
		if err := p.print(served.Item{Decision: d}); err != nil {
			return "", err
		}
	}
	err := p.end()
	return out.String(), err
}

// LookAt returns what usher status says about decisions, of a replica at a URL.
func LookAt(decisions []*recent.Decision) []string {
	f := &statusFlags{replicas: replica.Flags{Servers: []string{"https://127.0.0.1:8445"}, CAFile: "my ca.crt", Namespace: cluster.DefaultNamespace}}
	r := &statusReport{Decisions: &decisionCounts{}}
	policies := map[usher.PolicyRef]*figures{}
	for _, d := range decisions {
		r.count(d, policies)
	}
	f.notes(r, policies)
	var all []string
	for _, l := range r.LookAt {
		all = append(all, l.Policy.String()+": "+l.What+": "+l.Run)
	}
	return all
}
