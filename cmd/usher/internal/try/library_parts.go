package try

import (
	"cmp"
	"context"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/library"
)

// A part is some of the policies that are tried, which decide together.
type part struct {
	policies.Set

	mutates bool
	decider usher.Decider
}

// partsOf divides policies into those of packs that change nothing, and those of each other pack: what
// one pack fills in does not hide what another one refuses, which may be installed without it. Exemptions are for all.
func partsOf(set policies.Set, chosen []library.Policy) []part {
	packOf := map[string]string{}
	for i := range chosen {
		packOf[chosen[i].Name] = chosen[i].Pack
	}
	var mutating []string
	for i := range set.Rules {
		r := &set.Rules[i]
		if pack := packOf[r.Policy.Name]; r.Phase == usher.Mutate && pack != "" && !slices.Contains(mutating, pack) {
			mutating = append(mutating, pack)
		}
	}
	if len(mutating) == 0 {
		return []part{{Set: set}}
	}
	var parts []part
	only := func(keep func(pack string) bool) policies.Set {
		return set.Only(func(ref usher.PolicyRef) bool {
			kind, _ := api.KindCalled(ref.Kind)
			return kind.Exempts || keep(packOf[ref.Name])
		})
	}
	if others := only(func(pack string) bool { return !slices.Contains(mutating, pack) }); len(others.Deciding()) > 0 {
		parts = append(parts, part{Set: others})
	}
	for _, pack := range mutating {
		parts = append(parts, part{Set: only(func(one string) bool { return one == pack }), mutates: true})
	}
	return parts
}

// try adds to o what the policies say about an object, and what they change in the pods that it has
// made.
func (p *part) try(ctx context.Context, q Question, o *triedObject) error {
	j, err := judgeWithin(ctx, p.Timeout(), p.decider, p.Rules, q)
	if err != nil {
		return err
	}
	o.hear(&j)
	if !p.mutates {
		return nil
	}
	_, pod := workloadOf(q.Request)
	if pod == nil {
		return nil
	}
	j, err = judgeWithin(ctx, p.Timeout(), p.decider, p.Rules, Question{File: q.File, Request: pod})
	if err != nil {
		return err
	}
	for i := range j.Rules {
		heard := &j.Rules[i]
		switch {
		case heard.Phase != usher.Mutate || heard.Policy.Name == "":
		case heard.Error != "":
			o.says(said{Policy: heard.Policy.Name, Message: heard.Error, Failed: true})
		case heard.Outcome == usher.Changed && !slices.Contains(o.ChangesPods, heard.Policy.Name):
			o.ChangesPods = append(o.ChangesPods, heard.Policy.Name)
		}
	}
	return nil
}

// hear adds what the policies of one part say about an object.
func (o *triedObject) hear(j *Judgement) {
	o.File, o.Name, o.lacks = j.File, j.Name, o.lacks || j.lacks()
	if !j.Allowed && len(j.Rules) == 0 {
		o.says(said{Message: cmp.Or(j.Message, j.Reason), Failed: true})
	}
	for i := range j.Rules {
		heard := &j.Rules[i]
		o.ran = append(o.ran, heard.Policy.Name)
		for _, s := range saysOf(heard) {
			o.says(s)
		}
		if heard.Outcome == usher.Changed && heard.Policy.Name != "" {
			o.Changes = append(o.Changes, heard.Policy.Name)
		}
	}
}

// says adds what a policy says, once.
func (o *triedObject) says(s said) {
	if !slices.Contains(o.Says, s) {
		o.Says = append(o.Says, s)
	}
}
