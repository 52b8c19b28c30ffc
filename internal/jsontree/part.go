package jsontree

import (
	"fmt"
	"strings"
)

// AppendPart appends, as JSON, what [SelectPrescanned] returns: the text of the values of the object
// in data at the paths, as it is in data, within the objects that lead to them. It fails where
// SelectPrescanned fails.
func AppendPart(to, data []byte, paths *Paths, skipIndex SkipIndex) ([]byte, error) {
	d := decoder{data: data, text: stringOf(data), SkipIndex: skipIndex}
	if d.peek() != '{' {
		if err := d.value(); err != nil {
			return to, err
		}
		if err := d.end(); err != nil {
			return to, err
		}
		return to, fmt.Errorf("%s is not an object", clip(strings.TrimSpace(d.text)))
	}
	part, err := d.appendPart(to, paths)
	if err != nil {
		return to, err
	}
	if err := d.end(); err != nil {
		return to, err
	}
	return part, nil
}

// appendPart appends what the paths select of the value that begins here.
func (d *decoder) appendPart(to []byte, paths *Paths) ([]byte, error) {
	switch first := d.peek(); {
	case paths.Whole():
	case first == '{':
		return d.appendObject(to, paths)
	case first == '[':
		if inside := paths.element(); !inside.whole {
			return d.appendArray(to, inside)
		}
	}
	start := d.at
	err := d.value()
	return append(to, d.data[start:d.at]...), err
}

// appendObject appends the selected members of the object that begins here.
func (d *decoder) appendObject(to []byte, paths *Paths) ([]byte, error) {
	if err := d.enter(); err != nil {
		return to, err
	}
	to = append(to, '{')
	first := true
	for more := d.peek() != '}'; more; {
		start := d.at
		key, err := d.key()
		if err != nil {
			return to, err
		}
		if inside := paths.field(key); inside == nil {
			err = d.value()
		} else {
			if !first {
				to = append(to, ',')
			}
			first = false
			to = append(to, d.data[start:d.at]...)
			to, err = d.appendPart(to, inside)
		}
		if err != nil {
			return to, err
		}
		if more = d.peek() == ','; more {
			d.at++
			d.peek()
		}
	}
	return append(to, '}'), d.leave('}')
}

// appendArray appends what the paths select of each element of the array that begins here.
func (d *decoder) appendArray(to []byte, paths *Paths) ([]byte, error) {
	if err := d.enter(); err != nil {
		return to, err
	}
	to = append(to, '[')
	for more := d.peek() != ']'; more; {
		var err error
		if to, err = d.appendPart(to, paths); err != nil {
			return to, err
		}
		if more = d.peek() == ','; more {
			to = append(to, ',')
			d.at++
			d.peek()
		}
	}
	return append(to, ']'), d.leave(']')
}
