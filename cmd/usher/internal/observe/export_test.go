package observe

import (
	"bytes"

	"github.com/usher-dev/usher/cmd/internal/cli"
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
