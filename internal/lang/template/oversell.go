package template

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/rule"
)

// oversell plans requests of the first container as shares of its limits. It does nothing unless
// one factor is between 0 and 1; then the others are used as they are, so that "0" can mean a
// request to remove.
func (p *plan) oversell(t *v1alpha1.OverrideRuleTemplate) []rule.Problem {
	shares, problems := sharesOf(t.ResourcesOversell)
	if shares == nil {
		return []rule.Problem{odd("resourcesOversell", "no factor lies between 0 and 1: the template does nothing", "set a factor such as 0.5")}
	}
	if len(problems) > 0 {
		return problems
	}
	p.ensureResources()
	p.imports = append(p.imports, "encoding/json", "math", "regexp", "strconv")
	p.declares = append(p.declares, shareFields)
	for _, s := range shares {
		p.details = append(p.details, s.name+"*"+s.factor.decimal())
		p.declares = append(p.declares, s.fields)
		p.steps = append(p.steps, s.step(t.Operation))
	}
	return nil
}

// A share is a request that is a fraction of a limit.
type share struct {
	name           string
	limit, request spot
	factor         quantity
}

const (
	cpu    = "cpu"
	memory = "memory"
	disk   = "disk"
)

// sharesOf returns a share for each factor that is set, nil if none is between 0 and 1.
func sharesOf(o *v1alpha1.ResourcesOversellRule) ([]*share, []rule.Problem) {
	if o == nil {
		return nil, nil
	}
	var shares []*share
	var problems []rule.Problem
	active := false
	for _, f := range []struct {
		name, resource string
		factor         v1alpha1.Float64
	}{{cpu, "cpu", o.CpuFactor}, {memory, "memory", o.MemoryFactor}, {disk, "ephemeral-storage", o.DiskFactor}} {
		if f.factor == "" {
			continue
		}
		factor, ok := parseFactor(string(f.factor))
		if !ok {
			problems = append(problems, wrong("resourcesOversell."+f.name+"Factor",
				fmt.Sprintf("%q is not a decimal number from 0", f.factor), "use a number such as 0.5"))
			continue
		}
		number, err := strconv.ParseFloat(string(f.factor), 64)
		active = active || err == nil && number > 0 && number < 1
		shares = append(shares, &share{
			name: f.name, factor: factor,
			limit: firstContainer.at("limits", f.resource), request: firstContainer.at("requests", f.resource),
		})
	}
	if !active {
		return nil, nil
	}
	return shares, problems
}

// parseFactor reads a decimal number.
func parseFactor(text string) (quantity, bool) {
	text = strings.TrimPrefix(text, "+")
	// A number has no suffix, not even E; an exponent ends in a digit.
	if strings.Trim(text, "0123456789.eE+-") != "" || strings.HasSuffix(text, "E") {
		return quantity{}, false
	}
	return parseQuantity(text)
}

func (s *share) step(operation v1alpha1.OverriderOperator) step {
	if operation == v1alpha1.OperatorRemove {
		remove := &edit{when: []guard{is(s.request, anything)}, op: "remove", at: s.request}
		if s.name == disk {
			remove.when = append(remove.when, nonZero{s})
		}
		return remove
	}
	set := &edit{op: "add", at: s.request, value: amount{s}}
	switch s.name {
	case cpu:
		set.value = milliCPU{s}
	case disk:
		set.when = append(set.when, nonZero{s})
	}
	return set
}

// fields declare the share in CUE.
func (s *share) fields() []field {
	factor := s.factor.decimal()
	body := []field{{"limit", textOf(&s.limit)}}
	if s.name == cpu {
		body = append(body, field{"request", textOf(&s.request)})
		factor += " * 1000"
	}
	return []field{{s.name, "share & " + block(append(body, field{"factor", factor}))}}
}

// textOf is scalarText in CUE, "" for a value without text.
func textOf(at *spot) string {
	return first(when("("+at.cue()+" & (string | number)) != _|_", `"\(`+at.cue()+`)"`), `""`)
}

// scalarText returns the text of a quantity.
func scalarText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// limitOf returns the limit. It is not ok if there is none that is a quantity.
func (s *share) limitOf(r *run) (quantity, bool) {
	v, _ := s.limit.find(r)
	return parseQuantity(scalarText(v))
}

// of returns the share of the limit in units of 10^-power. It is not ok if there is no
// limit, or the share is beyond 64 bits.
func (s *share) of(r *run, power int) (int64, bool) {
	limit, ok := s.limitOf(r)
	if !ok {
		return 0, false
	}
	return limit.times(s.factor.shifted(power))
}

// shareFields declare share, which computes what of does.
func shareFields() []field {
	parts := first(
		when("limit =~ quantity", "regexp.FindSubmatch(quantity, limit)"),
		`["", "0", "", "", "", ""]`,
	)
	exponent := first(when(`parts[5] != ""`, "strconv.Atoi(parts[5])"), "suffixes[parts[4]]")
	return []field{
		{"quantity", literal(quantityGrammar)},
		{"suffixes", tableOf(powersOfTen)},
		{"multiples", tableOf(multiples)},
		{"share", block([]field{
			{"limit", "string"},
			{"factor", "number"},
			{"parts", parts},
			{"exponent", exponent},
			{"amount", `json.Unmarshal("0.\(parts[1])\(parts[2])0e\(len(parts[1])+exponent)") * multiples[parts[3]]`},
			{"result", "math.Round(amount * factor)"},
			{"ok", fmt.Sprintf("limit =~ quantity && limit =~ %s && result <= %d", literal(quantityDigit), math.MaxInt64)},
		})},
	}
}

// tableOf prints a table by ascending values, on one line.
func tableOf[N int | int64](table map[string]N) string {
	keys := slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		return cmp.Or(cmp.Compare(table[a], table[b]), cmp.Compare(a, b))
	})
	for i, key := range keys {
		keys[i] = fmt.Sprintf("%s: %d", label(key), table[key])
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

// An amount is the request as a plain number.
type amount struct{ *share }

func (a amount) of(r *run) (any, bool, error) {
	result, ok := a.share.of(r, 0)
	return result, ok, nil
}
func (a amount) exists() string { return a.name + ".ok" }
func (a amount) cue() string    { return a.name + ".result" }

// milliCPU is the request in thousandths of a core. It is 0m without a limit, and stays so
// where it is zero, as kinitiras has it.
type milliCPU struct{ *share }

// zeroGrammar is isZeroCPU in CUE.
const zeroGrammar = "^0+m?$"

func isZeroCPU(text string) bool {
	digits := strings.TrimSuffix(text, "m")
	return digits != "" && strings.Trim(digits, "0") == ""
}

func (c milliCPU) of(r *run) (any, bool, error) {
	result, ok := c.share.of(r, 3)
	if ok {
		request, _ := c.request.find(r)
		ok = !isZeroCPU(scalarText(request))
	}
	if !ok {
		return "0m", true, nil
	}
	return strconv.FormatInt(result, 10) + "m", true, nil
}
func (c milliCPU) exists() string { return "" }
func (c milliCPU) cue() string {
	return first(when(c.name+".ok && "+c.name+".request !~ "+literal(zeroGrammar), "strconv.FormatInt("+c.name+`.result, 10) + "m"`), `"0m"`)
}

// nonZero holds if there is a limit and it is more than zero.
type nonZero struct{ *share }

func (n nonZero) holds(r *run) bool {
	limit, ok := n.limitOf(r)
	return ok && !limit.isZero()
}
func (n nonZero) cue() string { return n.name + ".amount != 0" }
