package cel

import (
	"math"
	"slices"
	"sort"
)

// The variables of a [polynomial] that every expression has. Those after them belong to loops.
const (
	// sizeVariable is the size of what the expression reads: the characters of texts and keys,
	// and one for each value.
	sizeVariable = iota
	// lengthVariable is the length of the longest list or map of that.
	lengthVariable
	firstLoopVariable
)

const (
	maxVariables = 20
	// maxDegree and maxTerms are how complex a polynomial may be before it counts as infinite.
	maxDegree = 4
	maxTerms  = 40
)

// A monomial is the exponents of the variables.
type monomial [maxVariables]uint8

func (m *monomial) degree() (sum int) {
	for _, e := range m {
		sum += int(e)
	}
	return sum
}

// A polynomial is an upper bound: its coefficients are not negative. Nil is zero. It is immutable.
type polynomial map[monomial]float64

// infinite is the key of a term that says that there is no bound.
func infinite() polynomial { return polynomial{monomial{}: math.Inf(1)} }

func constant(c float64) polynomial { return polynomial{monomial{}: c} }

func variable(i int) polynomial {
	var m monomial
	m[i] = 1
	return polynomial{m: 1}
}

func (p polynomial) isInfinite() bool { return math.IsInf(p[monomial{}], 1) }

// combine joins the terms of p and q by f.
func (p polynomial) combine(q polynomial, f func(a, b float64) float64) polynomial {
	if p.isInfinite() || q.isInfinite() {
		return infinite()
	}
	all := make(polynomial, len(p)+len(q))
	for m, c := range p {
		all[m] = f(c, q[m])
	}
	for m, c := range q {
		if _, ok := p[m]; !ok {
			all[m] = f(0, c)
		}
	}
	return all.checked()
}

func (p polynomial) plus(q polynomial) polynomial {
	return p.combine(q, func(a, b float64) float64 { return a + b })
}

// or is at least p and at least q.
func (p polynomial) or(q polynomial) polynomial {
	return p.combine(q, func(a, b float64) float64 { return max(a, b) })
}

func (p polynomial) times(q polynomial) polynomial {
	if p.isInfinite() || q.isInfinite() {
		return infinite()
	}
	all := polynomial{}
	for m, c := range p {
		for n, d := range q {
			product := m
			for i := range n {
				product[i] += n[i]
			}
			if product.degree() > maxDegree {
				return infinite()
			}
			all[product] += c * d
		}
	}
	return all.checked()
}

func (p polynomial) checked() polynomial {
	if len(p) > maxTerms {
		return infinite()
	}
	for _, c := range p {
		if math.IsInf(c, 0) || math.IsNaN(c) {
			return infinite()
		}
	}
	return p
}

// lesser is either p or q, whichever grows less.
func (p polynomial) lesser(q polynomial) polynomial {
	if p.isInfinite() || !q.isInfinite() && q.growth() < p.growth() {
		return q
	}
	return p
}

// growth is the degree, with the length of lists as less than the size of everything.
func (p polynomial) growth() (most float64) {
	for m := range p {
		most = max(most, float64(m.degree())-float64(m[lengthVariable])/2)
	}
	return most
}

// uses reports whether a variable occurs, and whether it occurs only alone and at most once.
func (p polynomial) uses(i int) (occurs, once bool) {
	once = true
	for m, c := range p {
		if m[i] == 0 {
			continue
		}
		occurs = true
		once = once && m.degree() == 1 && c <= 1
	}
	return occurs, once
}

// without is p without the terms in which a variable occurs.
func (p polynomial) without(i int) polynomial {
	rest := polynomial{}
	for m, c := range p {
		if m[i] == 0 {
			rest[m] = c
		}
	}
	return rest
}

// with replaces a variable.
func (p polynomial) with(i int, by polynomial) polynomial { return p.replace(i, by, constant(1)) }

// sum is p summed over values of a variable whose sum is at most total, of which there are at most
// count: the sum of powers is at most the power of the sum.
func (p polynomial) sum(i int, total, count polynomial) polynomial { return p.replace(i, total, count) }

// replace replaces powers of a variable by those of a polynomial, and multiplies terms without it.
func (p polynomial) replace(i int, by, others polynomial) polynomial {
	if p.isInfinite() {
		return infinite()
	}
	all := polynomial{}
	for m, c := range p {
		power := m[i]
		m[i] = 0
		term := polynomial{m: c}
		if power == 0 {
			term = term.times(others)
		}
		for range power {
			term = term.times(by)
		}
		if all = all.plus(term); all.isInfinite() {
			return all
		}
	}
	return all
}

// A Bound is an upper bound of the cost of expressions, by the size of what they read. The zero
// Bound is zero. It is immutable.
type Bound struct{ terms []term }

type term struct {
	factor       float64
	size, length uint8
}

// bound is p, which has no variables of loops.
func (p polynomial) bound() Bound {
	var b Bound
	for m, c := range p {
		if m.degree() != int(m[sizeVariable])+int(m[lengthVariable]) {
			return infinite().bound()
		}
		b.terms = append(b.terms, term{c, m[sizeVariable], m[lengthVariable]})
	}
	slices.SortFunc(b.terms, func(x, y term) int {
		return (int(x.size)-int(y.size))*(maxDegree+1) + int(x.length) - int(y.length)
	})
	return b
}

func (b Bound) polynomial() polynomial {
	p := polynomial{}
	for _, t := range b.terms {
		p[monomial{sizeVariable: t.size, lengthVariable: t.length}] = t.factor
	}
	return p
}

// Plus returns a bound of two expressions together.
func (b Bound) Plus(other Bound) Bound { return b.polynomial().plus(other.polynomial()).bound() }

// Or returns a bound of each of two expressions.
func (b Bound) Or(other Bound) Bound { return b.polynomial().or(other.polynomial()).bound() }

// At returns the bound for what has that size, +Inf if there is no bound.
func (b Bound) At(s Size) float64 {
	var sum float64
	for _, t := range b.terms {
		value := t.factor
		for range t.size {
			value *= float64(s.Total)
		}
		for range t.length {
			value *= float64(s.Longest)
		}
		sum += value
	}
	return sum
}

// A Size is that of decoded objects.
type Size struct {
	// Total is at least one for each value, and one for each byte of texts and keys.
	Total int
	// Longest is the length of the longest list or map.
	Longest int
}

// unlimited is larger than all requests.
const unlimited = 1 << 40

// A Limit says up to which size something is within a limit.
type Limit struct {
	// totals are those up to which it is if no list or map is longer than the one in lengths, and the
	// last one if any is.
	totals [len(lengths) + 1]int
}

var lengths = [...]int{32, 512}

// LimitOf returns the limit of what grows with the size.
func LimitOf(within func(Size) bool) Limit {
	var l Limit
	for i := range l.totals {
		l.totals[i] = sort.Search(unlimited+1, func(total int) bool {
			longest := total
			if i < len(lengths) {
				longest = min(lengths[i], total)
			}
			return !within(Size{Total: total, Longest: longest})
		}) - 1
	}
	return l
}

// None reports whether every request is within the limit.
func (l *Limit) None() bool { return l.totals[len(lengths)] >= unlimited }

// Includes reports whether a size is known to be within the limit.
func (l *Limit) Includes(s Size) bool {
	for i, length := range lengths {
		if s.Longest <= length {
			return s.Total <= l.totals[i]
		}
	}
	return s.Total <= l.totals[len(lengths)]
}

// Plus returns the size of both.
func (s Size) Plus(other Size) Size {
	return Size{Total: s.Total + other.Total, Longest: max(s.Longest, other.Longest)}
}

// SizeOf returns the size of a decoded object, or of a part of one.
func SizeOf(native any) Size {
	var s Size
	s.Add(native)
	return s
}

// AddTexts adds the size of a list of texts.
func (s *Size) AddTexts(texts []string) {
	s.Total += 1 + 2*len(texts)
	s.Longest = max(s.Longest, len(texts))
	for _, text := range texts {
		s.Total += len(text)
	}
}

// Add adds the size of another object.
func (s *Size) Add(native any) {
	switch v := native.(type) {
	case map[string]any:
		s.Total += 1 + len(v)
		s.Longest = max(s.Longest, len(v))
		for key, value := range v {
			s.Total += len(key)
			s.Add(value)
		}
	case []any:
		s.Total += 1 + len(v)
		s.Longest = max(s.Longest, len(v))
		for _, value := range v {
			s.Add(value)
		}
	case string:
		s.Total += 1 + len(v)
	default:
		s.Total++
	}
}
