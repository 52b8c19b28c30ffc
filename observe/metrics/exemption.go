package metrics

import (
	"cmp"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
)

// A written has tables about single objects that users write, besides policies.
type written struct {
	exemptions table[exemptions]
	candidates table[[]Candidate]
}

// MostExemptions limits the exemptions with a series of their own: users may write many.
const MostExemptions = 500

// An Exemption is an exemption that is stored, and when it ends. The time is zero if it is not in
// force, for whatever other reason.
type Exemption struct {
	Ref     usher.PolicyRef
	Expires time.Time
}

// Exemptions adds metrics about exemptions to m. The function is called whenever metrics are read.
func (m *Metrics) Exemptions(all func() []Exemption) {
	m.written.exemptions.show(func() *exemptions { return exemptionsAt(all(), time.Now()) })
}

// exemptions are how many there are by state, and the valid ones by expiry.
type exemptions struct {
	states map[string]int
	valid  []Exemption
}

func exemptionsAt(all []Exemption, now time.Time) *exemptions {
	// Alerts need a 0 to compare with, not a missing series.
	states := map[string]int{"valid": 0, "expired": 0, "invalid": 0}
	valid := slices.DeleteFunc(slices.Clone(all), func(x Exemption) bool {
		state := "valid"
		switch {
		case x.Expires.IsZero():
			state = "invalid"
		case !now.Before(x.Expires):
			state = "expired"
		}
		states[state]++
		return state != "valid"
	})
	slices.SortFunc(valid, func(a, b Exemption) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	return &exemptions{states: states, valid: valid}
}

func exemptionRows() []row[exemptions] {
	return []row[exemptions]{
		{"exemptions", "Policy exemptions, by state: valid, expired, or invalid (not in force for another reason, which its status says).", []string{"state"}, by(func(s *exemptions) map[string]int { return s.states })},
		{"exemption_expiry_timestamp_seconds", "When a valid policy exemption expires, in seconds since 1970; for the 500 that expire first.", []string{"exemption_kind", "exemption_namespace", "exemption_name"}, func(s *exemptions, send sender) {
			for _, x := range s.valid[:min(len(s.valid), MostExemptions)] {
				send(float64(x.Expires.Unix()), x.Ref.Kind, x.Ref.Namespace, x.Ref.Name)
			}
		}},
	}
}
