package cue

import (
	"math"
)

func (c *callee) listRange() *extent {
	step := 1.0
	if len(c.args) > 2 {
		step = min(c.arg(2).least, math.Inf(1))
	}
	// What is not there yet counts when it is.
	if math.IsInf(step, 1) {
		step = 1
	}
	length := c.number(0) + c.number(1)
	if from, to := only(c.arg(0)), only(c.arg(1)); from != nil && to != nil {
		length = math.Abs(to.signed - from.signed)
	}
	n := math.Ceil(length / step)
	c.checkMade(c.call, n)
	member := nothing()
	member.number, member.least = max(c.number(0), c.number(1)), min(step, 1)
	c.result.members = n
	c.result.parts = []part{{member, n}}
	return c.result
}

// least returns the least member of a list of numbers that are all known, or nil.
func (c *callee) least() *extent {
	list := c.arg(0)
	if len(list.trees)+len(list.alts) > 0 || list.any != nil || len(list.parts) == 0 {
		return nil
	}
	n := math.Inf(1)
	for _, p := range list.parts {
		member := only(p.value)
		if member == nil {
			return nil
		}
		n = min(n, member.signed)
	}
	return exactly(c.result, n)
}

// flat returns the members of the members of a list.
func (c *callee) flat(list *extent) *extent {
	v := c.result
	if len(list.trees)+len(list.alts) == 0 && list.any == nil && len(list.parts) <= manyParts {
		for _, p := range list.parts {
			c.concat(v, p.times, p.value)
		}
	} else {
		c.concat(v, c.count(list), c.anyOf(list))
	}
	c.checkMade(c.call, v.members)
	return v
}

// flattened returns the members of a list, and of members that are lists, to any depth.
func (c *callee) flattened(list *extent) *extent {
	c.flatten(list, 1, 0)
	c.checkMade(c.call, c.result.members)
	return c.result
}

func (c *callee) flatten(list *extent, times float64, depth int) {
	if depth > 20 || len(c.result.parts) > 10*manyParts || c.excess != nil {
		c.result.members += times * c.total(list)
		c.result.parts = append(c.result.parts, part{list, times})
		return
	}
	if len(list.trees)+len(list.alts) > 0 || list.any != nil {
		members := c.anyOf(list)
		c.flattenMember(members, times*c.count(list), depth)
		return
	}
	for _, p := range list.parts {
		c.flattenMember(p.value, times*p.times, depth)
	}
}

func (c *callee) flattenMember(member *extent, times float64, depth int) {
	if member.any == nil && member.isList() {
		c.flatten(member, times, depth+1)
	}
	if !member.isList() || member.any != nil || len(member.alts) > 0 || len(member.lits) > 0 {
		c.result.members += times
		c.result.parts = append(c.result.parts, part{member, times})
	}
}
