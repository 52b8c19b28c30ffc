package cel

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/usher-dev/usher/internal/lang/cel/meter"
	"github.com/usher-dev/usher/internal/lang/quantity"
	"github.com/usher-dev/usher/internal/rule/allowance"
)

// What calls take at most, in nanoseconds and bytes: see [meter.Bound].
const (
	// byteNanos is for what visits each character, and parseNanos for what understands it.
	byteNanos, parseNanos = 1, 50
	// elementNanos is for an element that is made, and entryNanos for an entry.
	elementNanos, entryNanos = 30, 300
)

// nothing is for calls that take the same time whatever their arguments are.
func nothing(m *meter.Meter, _, _, _, _ ref.Val) { m.Spend(50) }

// comparison is for what compares two values.
func comparison(m *meter.Meter, left, right, _, _ ref.Val) { m.Compare(left, right) }

// understanding is for what understands a text, which is the argument at an index.
func understanding(index int) meter.Bound {
	return func(m *meter.Meter, a, b, _, _ ref.Val) {
		text := a
		if index == 1 {
			text = b
		}
		n := meter.Length(text)
		// An error quotes the text.
		m.Call(parseNanos*(n+1), 64*n+64)
	}
}

// copying is for what makes a text of the first argument that is at most factor times as long.
func copying(factor int64) meter.Bound {
	return func(m *meter.Meter, a, _, _, _ ref.Val) {
		n := meter.Length(a) + 4
		m.Call(4*byteNanos*n, factor*n)
	}
}

// walking is for what visits all of the first argument.
func walking(m *meter.Meter, a, _, _, _ ref.Val) { m.Walk(m.Weigh(a)) }

// containing is for item in of.
func containing(m *meter.Meter, item, of, _, _ ref.Val) {
	if _, ok := of.(traits.Mapper); ok {
		m.Key(item)
		return
	}
	m.Walk(m.Weigh(of))
}

func addition(m *meter.Meter, a, b, _, _ ref.Val) {
	switch a.(type) {
	case types.String, types.Bytes:
		n := meter.Length(a) + meter.Length(b)
		m.Call(n/4, n)
	case traits.MutableLister:
		m.Take(meter.ItemBytes * int64(sizeOf(b)))
	case traits.Lister:
		if _, ok := b.(traits.Lister); ok {
			n := int64(sizeOf(a) + sizeOf(b))
			m.Call(elementNanos*n, meter.ItemBytes*n)
		}
	default:
		m.Spend(50)
	}
}

// measuring is for size.
func measuring(m *meter.Meter, a, _, _, _ ref.Val) {
	if _, ok := a.(meter.Weigher); ok {
		m.Weigh(a)
		return
	}
	m.Spend(meter.Length(a))
}

// locating is for parts of a time: a time zone is read from a file.
func locating(m *meter.Meter, _, zone, _, _ ref.Val) {
	if zone != nil {
		// An error quotes it.
		n := meter.Length(zone)
		m.Call(100_000+2*n, 8<<10+16*n)
	}
}

// inserting is for what adds a key, or all keys of a map, to a map.
func inserting(m *meter.Meter, into, key, _, _ ref.Val) {
	added := int64(1)
	if other, ok := key.(traits.Mapper); ok {
		added = int64(sizeOf(other))
	} else {
		m.Key(key)
	}
	if _, ok := into.(traits.MutableMapper); !ok {
		added += int64(sizeOf(into))
	}
	m.Call(meter.Product(entryNanos, added), meter.Product(meter.EntryBytes, added))
}

func finding(m *meter.Meter, text, part, _, _ ref.Val) {
	m.Call(2*byteNanos*(meter.Length(text)+meter.Length(part)), 0)
}

// indexing is for indexOf and lastIndexOf, which compare at each place, of a text or a list.
func indexing(m *meter.Meter, of, part, _, _ ref.Val) {
	if _, ok := of.(types.String); !ok {
		walking(m, of, nil, nil, nil)
		return
	}
	n, k := meter.Length(of), meter.Length(part)
	m.Call(8*n+max(n-k+1, 1)*(k+1), 8*(n+k))
}

func splitting(m *meter.Meter, text, separator, limit, _ ref.Val) {
	s, _ := text.(types.String)
	sep, _ := separator.(types.String)
	m.Spend(2 * meter.Length(text))
	pieces := int64(strings.Count(string(s), string(sep)) + 1)
	if most, ok := limit.(types.Int); ok && most >= 0 {
		pieces = min(pieces, max(int64(most), 1))
	}
	m.Take((meter.ItemBytes + 24) * pieces)
	if limit != nil {
		// Go makes a list of so many texts first.
		most, _ := limit.(types.Int)
		m.Take(16 * min(max(int64(most), 0), meter.Length(text)+1))
	}
}

func replacing(m *meter.Meter, text, old, replacement, limit ref.Val) {
	s, _ := text.(types.String)
	o, _ := old.(types.String)
	n := meter.Length(text)
	m.Spend(4 * n)
	count := int64(strings.Count(string(s), string(o)))
	if most, ok := limit.(types.Int); ok && most >= 0 {
		count = min(count, int64(most))
	}
	bytes := n + count*meter.Length(replacement)
	m.Call(20*count+bytes/4, 2*bytes)
}

func joining(m *meter.Meter, list, separator, _, _ ref.Val) {
	weight := m.Weigh(list) + int64(sizeOf(list))*meter.Length(separator)
	// The text is grown as it is made.
	m.Call(2*weight, 5*weight)
}

// formatting is for format: a format has verbs, each of which may say a precision.
func formatting(m *meter.Meter, format, args, _, _ ref.Val) {
	text, _ := format.(types.String)
	m.Spend(meter.Length(format))
	weight, digits := 4*m.Weigh(args), int64(0)
	// The digits of a number of the largest exponent.
	const largest = 400
	for rest := string(text); ; {
		at := strings.IndexByte(rest, '%')
		if at < 0 {
			break
		}
		rest = rest[at+1:]
		weight += largest
		if len(rest) > 0 && rest[0] == '.' {
			digits += number(rest[1:])
		}
	}
	weight += meter.Length(format) + min(digits, 1<<40)
	m.Call(16*weight, 4*weight)
}

// number is the number with which a text begins, or a large one.
func number(text string) (n int64) {
	for i := 0; i < len(text) && text[i] >= '0' && text[i] <= '9' && n < 1<<40; i++ {
		n = 10*n + int64(text[i]-'0')
	}
	return n
}

// pairing is for what compares each element of one list with each of another.
func pairing(m *meter.Meter, a, b, _, _ ref.Val) {
	left, right := m.Weigh(a), m.Weigh(b)
	m.Walk(min(meter.Product(left, int64(sizeOf(b))), meter.Product(right, int64(sizeOf(a)))))
}

// distinguishing is for distinct.
func distinguishing(m *meter.Meter, list, _, _, _ ref.Val) {
	m.Take(meter.ItemBytes * int64(sizeOf(list)))
	m.Walk(meter.Product(m.Weigh(list), int64(sizeOf(list))) / 2)
}

// comparingElements is for what compares the elements of a list with one another.
func comparingElements(function string) meter.Bound {
	if function == "distinct" {
		return distinguishing
	}
	return sorting(compared(function))
}

// sorting is for what compares the elements of a list, which is the argument at an index.
func sorting(index int) meter.Bound {
	return func(m *meter.Meter, a, b, _, _ ref.Val) {
		list := a
		if index == 1 {
			list = b
		}
		n, steps := int64(sizeOf(list)), int64(2)
		for k := n; k > 0; k /= 2 {
			steps++
		}
		m.Take(2 * meter.ItemBytes * n)
		m.Walk(meter.Product(m.Weigh(list), steps))
	}
}

// copyingList is for what makes a list of the elements of another one, which it grows.
func copyingList(m *meter.Meter, list, _, _, _ ref.Val) {
	n := int64(sizeOf(list))
	m.Call(2*elementNanos*n, 3*meter.ItemBytes*n)
}

func flatteningList(m *meter.Meter, list, _, _, _ ref.Val) {
	weight := m.Weigh(list)
	m.Call(3*weight, 7*weight)
}

func ranging(m *meter.Meter, n, _, _, _ ref.Val) {
	if i, ok := n.(types.Int); ok && i > 0 {
		// The list is grown as it is made. Its memory is that of the last one: API servers let policies make
		// ten with a million numbers each.
		m.Call(meter.Product(int64(i), elementNanos), meter.Product(int64(i), 24))
	}
}

// quantifying is for quantity and isQuantity.
func quantifying(m *meter.Meter, text, _, _, _ ref.Val) {
	s, _ := text.(types.String)
	if !quantity.Parses(string(s)) {
		// A number of as many digits as its exponent says takes any time, and so does each comparison with it.
		m.Refuse(errQuantity)
	}
	m.Call(parseNanos*(int64(len(s))+1), 80*int64(len(s))+64)
}

var errQuantity = errors.New("takes too long: a quantity may have 1000 digits, and an exponent from -1000 to 1000")

// calculating is for what is done with quantities, which have at most a thousand digits.
func calculating(m *meter.Meter, _, _, _, _ ref.Val) { m.Spend(2000) }

// locator is for parts of a URL.
func locator(m *meter.Meter, url, _, _, _ ref.Val) {
	u, ok := url.(apiservercel.URL)
	if !ok {
		return
	}
	n := int64(len(u.Host) + len(u.Path) + len(u.RawPath) + len(u.RawQuery) + len(u.Opaque))
	m.Call(parseNanos*(n+1), 32*n+64)
}

// selecting is for the selectors of access questions.
func selecting(m *meter.Meter, _, text, _, _ ref.Val) {
	n := meter.Length(text)
	m.Call(200*(n+1), 128*n+64)
}

// validation is for formats: each has a few regular expressions.
func validation(m *meter.Meter, _, text, _, _ ref.Val) {
	n := meter.Length(text)
	m.Call(300*(n+1), 16*n+256)
}

// asking is for questions to the authorizer, which are requests to API servers: no more of them fit into
// [allowance.CountedTime] than into the budget of API servers.
func asking(m *meter.Meter, _, _, _, _ ref.Val) { m.Shorten(allowance.CountedTime * 33 / 100) }

// matchingText is for a pattern that is computed.
func matchingText(m *meter.Meter, text, pattern, _, _ ref.Val) {
	s, _ := text.(types.String)
	p, _ := pattern.(types.String)
	states := m.Regex(string(p))
	m.Take(2 * int64(utf8.UTFMax) * states)
	m.Find(meter.NewPattern(string(p)), string(s))
}

// findingAll is that of findAll, which makes a list.
func findingAll(m *meter.Meter, text, pattern, limit, _ ref.Val) {
	s, _ := text.(types.String)
	p, _ := pattern.(types.String)
	most := int64(-1)
	if n, ok := limit.(types.Int); ok {
		most = int64(n)
	}
	// It is compiled here, too.
	m.Regex(string(p))
	m.Regex(string(p))
	m.FindAll(meter.NewPatternForAll(string(p)), string(s), most)
	m.Take((meter.ItemBytes + 24) * (meter.Length(text) + 1))
}
