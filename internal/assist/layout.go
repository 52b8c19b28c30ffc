package assist

import (
	"strings"

	"github.com/usher-dev/usher/internal/assist/draft"
)

// A layout indents a text of YAML line by line: by two columns a level, with lists in the column of their key. It moves
// what lines begin with, and reads no more than it needs for that; who uses it compares what both texts mean.
type layout struct {
	lines []string
	// out is what lines become, and dropped are those that do not stay.
	out     []string
	dropped []bool
	// next is the line that is read next.
	next int
	// open are the maps and lists that a line may belong to, from the outside.
	open []level
	// comments are lines with comments since the last line with anything else.
	comments []int
	// literal is set if the last line belongs to a block scalar.
	literal bool
}

// A level is a map or a list, by its column before and after.
type level struct {
	old, now int
	list     bool
}

// outside is the level around a document.
var outside = level{old: -1}

func newLayout(text string) *layout {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	l := &layout{lines: lines, out: make([]string, len(lines)), dropped: make([]bool, len(lines))}
	for l.next < len(lines) {
		l.line()
	}
	l.placeComments(outside)
	l.dropBlank()
	return l
}

// line reads the next line, and those that its value goes on in.
func (l *layout) line() {
	line := l.lines[l.next]
	rest := strings.TrimLeft(line, " ")
	column := len(line) - len(rest)
	switch {
	case blank(line):
		l.next++
	case rest[0] == '#':
		l.literal = false
		l.comments = append(l.comments, l.next)
		l.out[l.next] = strings.TrimRight(rest, " \t")
		l.next++
	case isMarker(line):
		l.placeComments(outside)
		l.open = nil
		l.value(outside, line[:3]+" ", strings.TrimLeft(line[3:], " \t"), 0, 0)
	case line[0] == '%' && len(l.open) == 0:
		l.placeComments(outside)
		l.out[l.next] = line
		l.next++
	default:
		l.entry(column, rest)
	}
}

// entry reads a line of a map or of a list, or a value on a line of its own.
func (l *layout) entry(column int, rest string) {
	before := append([]level(nil), l.open...)
	lead, at, first := "", column, outside
	indent := func(of level) {
		if first == outside {
			first = of
			lead = strings.Repeat(" ", of.now)
		}
	}
	parent := outside
	for strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "-\t") || rest == "-" {
		parent = l.enter(at, true)
		indent(parent)
		after := strings.TrimLeft(rest[1:], " \t")
		at += len(rest) - len(after)
		if after == "" || after[0] == '#' {
			l.comesBefore(before, first, column)
			l.out[l.next] = strings.TrimRight(lead+rest, " \t")
			l.next++
			return
		}
		lead += "- "
		rest = after
	}
	if colon := keyEnd(rest); colon >= 0 {
		parent = l.enter(at, false)
		indent(parent)
		l.comesBefore(before, first, column)
		value := strings.TrimLeft(rest[colon+1:], " \t")
		head := lead + rest[:colon+1]
		if value == "" || value[0] == '#' {
			l.out[l.next] = strings.TrimRight(lead+rest, " \t")
			l.next++
			return
		}
		l.value(parent, head+" ", value, column, first.now)
		return
	}
	if first == outside {
		for len(l.open) > 0 && l.top().old >= at {
			l.open = l.open[:len(l.open)-1]
		}
		if parent = l.top(); parent != outside {
			first = level{old: at, now: parent.now + 2}
		} else {
			first = level{old: at}
		}
		lead = strings.Repeat(" ", first.now)
	}
	l.comesBefore(before, first, column)
	l.value(parent, lead, rest, column, first.now)
}

func (l *layout) top() level {
	if len(l.open) == 0 {
		return outside
	}
	return l.open[len(l.open)-1]
}

// enter returns the map or list with entries in a column.
func (l *layout) enter(column int, list bool) level {
	for len(l.open) > 0 && (l.top().old > column || l.top().old == column && l.top().list && !list) {
		l.open = l.open[:len(l.open)-1]
	}
	top := l.top()
	switch {
	case top == outside:
		l.open = append(l.open, level{column, 0, list})
	case top.old == column && top.list == list:
	case list && !top.list:
		l.open = append(l.open, level{column, top.now, true})
	default:
		l.open = append(l.open, level{column, top.now + 2, list})
	}
	return l.top()
}

// comesBefore places the comments before a line, which begins a level, as far as they do not belong to what was open.
func (l *layout) comesBefore(before []level, first level, column int) {
	now := l.open
	l.open = before
	l.placeComments(level{old: column, now: first.now})
	l.open = now
}

// placeComments indents comments as what they are in line with: the line that follows, or else what is open.
func (l *layout) placeComments(following level) {
	for _, i := range l.comments {
		column := columnOf(l.lines[i])
		now := 0
		if column == following.old {
			now = following.now
		} else {
			for _, of := range l.open {
				if of.old > column {
					break
				}
				now = of.now
			}
		}
		l.out[i] = strings.Repeat(" ", now) + l.out[i]
	}
	l.comments = l.comments[:0]
}

// value writes a line that ends with a value, or with its beginning, and the lines in which it goes on. The line began
// in column, and begins in now.
func (l *layout) value(parent level, head, text string, column, now int) {
	first := l.next
	l.next++
	l.literal = false
	l.out[first] = strings.TrimRight(head+text, " \t")
	below := parent.now + 2
	switch content := text[propertiesOf(text):]; {
	case content == "" || content[0] == '#' || content[0] == '*':
	case content[0] == '|' || content[0] == '>':
		l.block(parent, content)
	case content[0] == '"' || content[0] == '\'':
		end, quote := draft.Quoted(content[1:], content[0]), content[0]
		if end < 0 {
			l.out[first] = head + text
		}
		for end < 0 && l.next < len(l.lines) {
			rest := strings.TrimLeft(l.lines[l.next], " \t")
			end = draft.Quoted(rest, quote)
			l.goOn(below, rest)
		}
	case content[0] == '{' || content[0] == '[':
		var f flow
		done := f.read(content)
		if !done {
			l.out[first] = head + text
		}
		for !done && l.next < len(l.lines) {
			rest := strings.TrimLeft(l.lines[l.next], " \t")
			was := len(l.lines[l.next]) - len(rest)
			done = f.read(rest)
			l.goOn(max(0, was+now-column), rest)
		}
	default:
		l.plain(parent, content, below)
	}
}

// goOn writes the next line, which goes on with a value.
func (l *layout) goOn(indent int, rest string) {
	if rest == "" {
		l.keep()
		return
	}
	l.out[l.next] = strings.Repeat(" ", indent) + rest
	l.next++
}

// plain writes the lines in which a plain scalar goes on.
func (l *layout) plain(parent level, content string, below int) {
	for at := l.next; !strings.Contains(content, " #") && at < len(l.lines); at++ {
		line := l.lines[at]
		if blank(line) {
			continue
		}
		content = strings.TrimSpace(line)
		if columnOf(line) <= parent.old || content[0] == '#' || isMarker(line) {
			return
		}
		for l.next < at {
			l.keep()
		}
		l.goOn(below, content)
	}
}

// keep writes a blank line that is a part of a value.
func (l *layout) keep() {
	l.out[l.next] = "\n"
	l.next++
}

// block writes the lines of a block scalar, whose header is given.
func (l *layout) block(parent level, header string) {
	header, _, _ = strings.Cut(header, " ")
	was, now := -1, parent.now+2
	if i := strings.IndexAny(header, "123456789"); i >= 0 {
		step := int(header[i] - '0')
		was, now = max(parent.old, 0)+step, parent.now+step
	}
	last := l.next - 1
	at := l.next
	for ; at < len(l.lines); at++ {
		line := l.lines[at]
		if strings.Trim(line, " ") != "" {
			if was < 0 {
				was = max(columnOf(line), parent.old+1)
			}
			if columnOf(line) < was || isMarker(line) {
				break
			}
			last = at
		} else if was >= 0 && len(line) > was {
			last = at
		}
	}
	if strings.Contains(header, "+") {
		last = at - 1
	}
	for l.next <= last {
		line := l.lines[l.next]
		if len(line) <= was && blank(line) || was < 0 {
			l.keep()
			continue
		}
		l.out[l.next] = strings.Repeat(" ", now) + line[was:]
		l.next++
	}
	l.literal = true
}

// dropBlank drops the blank lines at the beginning and at the end, and those after another one.
func (l *layout) dropBlank() {
	after, some := -1, false
	for i, line := range l.out {
		switch {
		case line == "\n":
			l.out[i] = ""
			after, some = i, true
		case line != "":
			after, some = i, true
		case !some || after < i-1:
			l.dropped[i] = true
		}
	}
	last := len(l.out) - 1
	for i := after + 1; i < last; i++ {
		l.dropped[i] = true
	}
	// It has no line break to drop.
	l.dropped[last] = false
	// A text ends with a line break, unless that would be one more of a block scalar.
	if after == last && l.out[last] != "" && !l.literal {
		l.out[last] += "\n"
	}
}
