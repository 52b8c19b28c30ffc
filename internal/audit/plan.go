package audit

import (
	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/compile"
)

// A judges is a [judge.Judge] as judging.
type judges struct{ *judge.Judge }

func judgeOf(o judge.Options) judging { return judges{judge.New(nil, o)} }

func (j judges) update(compiled []compile.Compiled) (judging, []usher.PolicyRef) {
	next, changed := j.Update(compiled)
	return judges{next}, changed
}

func (j judges) in(versions judge.Versions) judging { return judges{j.WithVersions(versions)} }

func (j judges) plan(of result.Kind) plan {
	if p := j.Plan(of); p != nil {
		return p
	}
	return nil
}
