package cel

import (
	"fmt"
	"regexp/syntax"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// SurelyWrong returns the constants in a checked expression that surely do not mean what they say, each with its place:
// regular expressions that match no text, and those given to functions that look for text.
func SurelyWrong(checked *cel.Ast) []Issue {
	return append(neverMatching(checked), anchored(checked)...)
}

// anchored returns the texts with anchors of regular expressions that functions look for as they are.
func anchored(checked *cel.Ast) []Issue {
	var all []Issue
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() || len(e.AsCall().Args()) != 1 {
			return
		}
		function, arg := e.AsCall().FunctionName(), e.AsCall().Args()[0]
		text, ok := textOf(arg)
		if !ok || len(text) < 2 {
			return
		}
		anchor := ""
		switch {
		case (function == "startsWith" || function == "contains") && text[0] == '^':
			anchor = "^"
		case function == "endsWith" && text[len(text)-1] == '$':
			anchor = "$"
		default:
			return
		}
		at := checked.NativeRep().SourceInfo().GetStartLocation(arg.ID())
		all = append(all, Issue{
			at.Line(), at.Column() + 1,
			fmt.Sprintf("%s looks for the character %s in %q: it takes a text, not a regular expression", function, anchor, text),
			fmt.Sprintf("leave out the %s, or write matches", anchor),
		})
	}))
	return all
}

// neverMatching returns the constant regular expressions of a checked expression that match no text, each with its
// place: those of which the syntax proves that.
func neverMatching(checked *cel.Ast) []Issue {
	var all []Issue
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		i := patternIn(call.FunctionName(), call.IsMemberFunction())
		if i < 0 || i >= len(call.Args()) {
			return
		}
		text, ok := textOf(call.Args()[i])
		if !ok {
			return
		}
		re, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return
		}
		if m := meets(re); m.never {
			at := checked.NativeRep().SourceInfo().GetStartLocation(call.Args()[i].ID())
			all = append(all, Issue{at.Line(), at.Column() + 1, fmt.Sprintf("the regular expression %q matches no text%s", text, m.why), m.do})
		}
	}))
	return all
}

// A met is what each match of a part of a regular expression does.
type met struct {
	// never is that there is none, which why and do explain.
	never   bool
	why, do string
	// consumes is that it has a character, and begins and ends that it has the beginning and the end of the text.
	consumes, begins, ends bool
}

// meets returns what each match of a regular expression does, as far as its syntax says.
func meets(re *syntax.Regexp) met {
	switch re.Op {
	case syntax.OpNoMatch:
		return met{never: true, do: "correct the regular expression"}
	case syntax.OpLiteral:
		return met{consumes: len(re.Rune) > 0}
	case syntax.OpCharClass:
		return met{never: len(re.Rune) == 0, do: "correct the regular expression", consumes: true}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return met{consumes: true}
	case syntax.OpBeginText:
		return met{begins: true}
	case syntax.OpEndText:
		return met{ends: true}
	case syntax.OpCapture:
		return meets(re.Sub[0])
	case syntax.OpPlus:
		return meets(re.Sub[0])
	case syntax.OpRepeat:
		return inSequence(slices.Repeat(re.Sub, min(re.Min, 2)))
	case syntax.OpConcat:
		return inSequence(re.Sub)
	case syntax.OpAlternate:
		return oneOf(re.Sub)
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
	}
	return met{}
}

// inSequence returns what matches of all parts do, one behind the other.
func inSequence(parts []*syntax.Regexp) met {
	var all met
	for _, part := range parts {
		m := meets(part)
		switch {
		case m.never:
			return m
		case all.consumes && m.begins:
			return met{never: true, why: ": ^ is the beginning of the text, and characters come before it", do: `write \^ for the character in a raw string, r'…'`}
		case all.ends && m.consumes:
			return met{never: true, why: ": $ is the end of the text, and characters come after it", do: `write \$ for the character in a raw string, r'…'`}
		}
		all.consumes, all.begins, all.ends = all.consumes || m.consumes, all.begins || m.begins, all.ends || m.ends
	}
	return all
}

// oneOf returns what each match of one of some parts does.
func oneOf(parts []*syntax.Regexp) met {
	all := met{never: true, consumes: true, begins: true, ends: true}
	for _, part := range parts {
		m := meets(part)
		switch {
		case !m.never:
			all.never, all.why, all.do = false, "", ""
			all.consumes, all.begins, all.ends = all.consumes && m.consumes, all.begins && m.begins, all.ends && m.ends
		case all.never && all.do == "":
			all.why, all.do = m.why, m.do
		}
	}
	return all
}
