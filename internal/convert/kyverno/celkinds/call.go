package celkinds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
)

// left are libraries and functions of Kyverno that policies of Usher do not have, and what to do instead.
var left = map[string]struct{ what, do string }{
	"http":                {"requests to HTTP services", "write it with data.http"},
	"globalContext":       {"entries of Kyverno's global context", "write it with data.list"},
	"json":                {"JSON in texts", "write it without"},
	"yaml":                {"YAML in texts", "write it without"},
	"hash":                {"hashes", "write it without"},
	"sha1":                {"hashes", "write it without"},
	"sha256":              {"hashes", "write it without"},
	"md5":                 {"hashes", "write it without"},
	"random":              {"random texts", "write it without: a policy decides the same whenever it is asked"},
	"time":                {"the time", "write it without: a policy decides the same whenever it is asked"},
	"math":                {"functions of numbers", "write it with operators"},
	"x509":                {"certificates", "write it without"},
	"gzip":                {"compressed data", "write it without"},
	"transform":           {"maps of lists", "write it with transformMap"},
	"listObjToMap":        {"maps of lists", "write it with transformMap"},
	"base64":              {"base64", "write it without"},
	"regex":               {"parts of texts that match", "write it with find or matches"},
	"generator":           {"objects to create", "keep it: Usher creates no objects"},
	"images":              {"images", "write it with the fields of the object"},
	"isImage":             {"whether a text is an image", "write it with matches"},
	"parseImageReference": {"parts of images", "write it with split"},
}

// call rewrites a call, whose target and arguments have been rewritten.
func (r *rewriter) call(e ast.Expr, bound []string) {
	call := e.AsCall()
	name := call.FunctionName()
	if !call.IsMemberFunction() {
		switch of, isLeft := left[name]; {
		case name == "parseServiceAccount" && len(call.Args()) == 1:
			r.serviceAccount(e, call.Args()[0])
		case isLeft:
			r.leave("it reads "+of.what+", with "+name, of.do)
		}
		return
	}
	target := call.Target()
	if of, ok := imageOf(target); ok {
		r.image(e, name, of)
		return
	}
	if target.Kind() != ast.IdentKind || slices.Contains(bound, target.AsIdent()) {
		return
	}
	switch library := target.AsIdent(); library {
	case "resource":
		r.resource(e, strings.ToLower(name), call.Args())
	case "user":
		r.serviceAccount(e, call.Args()[0])
	case "image":
		r.leave("it reads images from their registries, with image."+name, "keep it: Usher asks no registries")
	case "cel":
		r.leave("it has a macro of CEL that admission policies do not have: cel."+name, "write a variable")
	default:
		if of, ok := left[library]; ok {
			r.leave("it reads "+of.what+", with "+library+"."+name, of.do)
		}
	}
}

// serviceAccount replaces the parts of the name of a user.
func (r *rewriter) serviceAccount(e, user ast.Expr) {
	text, err := unparse(user, ast.NewSourceInfo(nil))
	if err != nil {
		r.leave(err.Error(), "write the expression in another way")
		return
	}
	const prefix = "system:serviceaccount:"
	part := func(n int) string {
		return fmt.Sprintf("%s.startsWith('%s') && %s.split(':', 4).size() == 4 ? %s.split(':', 4)[%d] : ''", text, prefix, text, text, n)
	}
	r.text(e, "{'Namespace': "+part(2)+", 'Name': "+part(3)+"}")
}

// imageOf returns the text of which an image is made.
func imageOf(e ast.Expr) (ast.Expr, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().IsMemberFunction() || len(e.AsCall().Args()) != 1 {
		return nil, false
	}
	name := e.AsCall().FunctionName()
	return e.AsCall().Args()[0], name == "image" || name == "parseImageReference"
}

// image replaces a part of an image.
func (r *rewriter) image(e ast.Expr, part string, image ast.Expr) {
	text, err := unparse(image, ast.NewSourceInfo(nil))
	if err != nil {
		r.leave(err.Error(), "write the expression in another way")
		return
	}
	switch part {
	case "registry":
		r.text(e, fmt.Sprintf("(!%[1]s.matches('^([^/]*[.:][^/]*|localhost)/') || %[1]s.startsWith('docker.io/') ? 'index.docker.io' : %[1]s.split('/')[0])", text))
	case "containsDigest":
		r.text(e, text+".contains('@')")
	default:
		r.leave("it reads a part of images, with image."+part, "write it with split")
		return
	}
	r.note(r.at, "a text that is no reference of an image is no error", "")
}
