package observe

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// mostRepeats is how many different decisions are known, those that came last.
	mostRepeats = 16
	// repeatsWithin is how long after another decision one repeats it at the latest: controllers pause between
	// attempts.
	repeatsWithin = 20 * time.Minute
)

// generated is the end of a name that an API server made of a generateName.
var generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// A repeat is decisions that differ in their times, names of replicas and generated names alone, such as those about
// a controller that tries again. The first one is printed, and then how many there are.
type repeat struct {
	key, title string
	n, told    int
	last       time.Time
	// longest is the one that took the longest.
	longest *recent.Decision
	// due is the number at which it is printed while more of them come.
	due int
}

// repeats are those that came last, the newest at the end.
type repeats []*repeat

// add counts a decision, and returns those that no decision can repeat any more.
func (r *repeats) add(key, title string, at time.Time) (one *repeat, ended []*repeat) {
	i := slices.IndexFunc(*r, func(known *repeat) bool { return known.key == key })
	if i >= 0 {
		one = (*r)[i]
		*r = slices.Delete(*r, i, i+1)
		if at.Sub(one.last) > repeatsWithin {
			ended, one = append(ended, one), nil
		}
	}
	if one == nil {
		one = &repeat{key: key, title: title, told: 1, due: 10}
	}
	one.n, one.last = one.n+1, at
	if *r = append(*r, one); len(*r) > mostRepeats {
		ended = append(ended, (*r)[0])
		*r = slices.Delete(*r, 0, 1)
	}
	return one, ended
}

// repeatOf returns what decides whether a line repeats another one, and how it is called.
func (p *printer) repeatOf(d *recent.Decision) (key, title string) {
	word, _ := p.verdict(d)
	policies, _ := policiesOf(d)
	about := what(d)
	if d.Operation == "CREATE" {
		about = generated.ReplaceAllString(about, "-*")
	}
	user, marked := printable.Line(d.User), strings.Join(marks(d), ", ")
	key = strings.Join([]string{word, d.Operation, about, user, marked, policies}, "\x00")
	title = strings.Join([]string{word, printable.Line(d.Operation), about, user}, " ")
	if marked != "" {
		title += " [" + marked + "]"
	}
	return key, strings.TrimSuffix(title+" "+policies, " ")
}

// tell prints how many decisions there are like one that was printed, unless that is known.
func (p *printer) tell(all ...*repeat) error {
	for _, r := range all {
		if r == nil || r.n == r.told {
			continue
		}
		r.told = r.n
		at := p.flags.since.clock(r.last)
		late := r.last.Before(p.newest)
		what := r.title + ":"
		if r == p.shown && !p.flags.once {
			what = "the same"
		}
		p.shown = r
		text := fmt.Sprintf("%s %s %d times so far", at, what, r.n)
		if late {
			// The lines are in the order of time.
			text = fmt.Sprintf("%*s %s %d times until %s", len(at), "", what, r.n, at)
		}
		if took := p.took(r.longest); took != "" {
			text += ", the longest " + took
		}
		if err := p.write(r.last, cli.Paint(p.palette.Faint, text)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// end prints how often decisions were repeated, and what was kept for the end.
func (p *printer) end() error {
	if err := p.tell(p.repeats...); err != nil {
		return err
	}
	slices.SortStableFunc(p.past, func(a, b pastLine) int { return a.at.Compare(b.at) })
	for _, line := range p.past {
		if _, err := io.WriteString(p.streams.Out, line.text); err != nil {
			return err
		}
	}
	if p.flags.once && p.hinted {
		return p.hint()
	}
	return nil
}
