package recent

import (
	"unique"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// differences are the words for how a decision of a candidate differs, of which a kept has bits.
var differences = rule.Differences()

// outcomeOf are the outcomes by which filters select them.
var outcomeOf = map[string]Outcome{"failing": Failed, "denied": Denied, "changed": Changed, "warned": Warned}

// Differs adds what a policy candidate would decide, and how that differs. It never waits.
func (r *Ring) Differs(d *rule.CandidateDifference) {
	k := keepAny(d.Request, &d.Decision, nil, d.At)
	k.took = 0
	for i, kind := range differences {
		for _, word := range d.Kinds {
			if word == kind {
				k.differences |= 1 << i
			}
		}
	}
	if k.differences == 0 {
		return
	}
	of := keptRule{rule: unique.Make(ruleRef{policy: usher.PolicyRef{Kind: own(d.Candidate.Kind), Namespace: own(d.Candidate.Namespace), Name: own(d.Candidate.Name)}})}
	k.rules = append([]keptRule{of}, k.rules...)
	r.add(d.Request, k)
}

// differs reports whether a decision of a candidate differs so.
func (k *kept) differs(o Outcome) bool {
	for i, kind := range differences {
		if k.differences&(1<<i) != 0 && outcomeOf[kind] == o {
			return true
		}
	}
	return false
}
