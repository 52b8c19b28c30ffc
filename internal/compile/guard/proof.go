package guard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/proof"
)

// Proofs makes and checks proofs that writers of policies had the right to write them.
type Proofs interface {
	// Make returns the proof of a policy whose writer has the right to write it.
	Make(api.Object) (string, error)
	// Prove says why a policy has no valid proof; empty if it has one.
	Prove(context.Context, api.Object) (why string)
}

// needsProof reports whether the request writes a policy that has an effect only with a proof.
func (g *guard) needsProof(r *usher.Request) bool {
	if g.options.Proofs == nil || !writesPolicy(r) {
		return false
	}
	kind, ok := api.KindNamed(kindOf(r))
	return ok && kind.NeedsProof
}

// A proving is the write of one policy that needs a proof.
type proving struct {
	*guard
	request *usher.Request
	// object is the policy to write, old the stored one; old is nil if there is none.
	object, old api.Object
	// same reports whether both say the same.
	same bool
}

// newProving returns nil if the policy cannot be decoded: such a policy has no effect.
func (g *guard) newProving(r *usher.Request, object *usher.Object) *proving {
	written, err := decodeObject(r, object)
	if err != nil {
		return nil
	}
	p := &proving{guard: g, request: r, object: written.Object}
	if r.Operation == usher.Update && r.OldObject != nil {
		if old, err := decodeObject(r, r.OldObject); err == nil {
			p.old, p.same = old.Object, proof.Same(old.Object, written.Object)
		}
	}
	return p
}

// prove adds the proof to the patch of d: after it has checked the rights of the writer, or because
// the stored policy says the same and is proven. It removes any other value of the annotation that
// the request has.
func (g *guard) prove(ctx context.Context, r *usher.Request, d usher.Decision) (usher.Decision, error) {
	tree, err := r.Object.Tree()
	if err != nil {
		return d, nil //nolint:nilerr // It has been decoded before d, which is a denial otherwise.
	}
	if tree, _, err = jsonpatch.Apply(tree, d.Patch); err != nil {
		return usher.Decision{}, err
	}
	if name, generated := names(tree, r); name == "" && generated {
		return g.generated(r), nil
	}
	p := g.newProving(r, usher.TreeObject(tree))
	if p == nil {
		return d, nil
	}
	want, why := p.proof(ctx)
	if why != (refusal{}) {
		return p.refuse(why), nil
	}
	if patch := annotate(p.object, proof.Annotation, want); len(patch) > 0 {
		d.Patch = append(slices.Clip(d.Patch), patch...)
		d.Findings = append(slices.Clip(d.Findings), usher.Finding{
			Policy: compile.Ref(p.object), Rule: "metadata.annotations", Outcome: usher.Changed, Patch: patch,
		})
	}
	return d, nil
}

// proof returns the new value of the policy's annotation. If the policy is refused, why is the
// reason.
func (p *proving) proof(ctx context.Context) (text string, why refusal) {
	stored := ""
	if p.old != nil {
		stored = p.old.GetAnnotations()[proof.Annotation]
	}
	switch {
	case p.same && p.request.Trusted && p.Prove(ctx, p.old) == "":
		return p.make()
	case p.same && !p.adopts():
		return stored, refusal{}
	case p.same:
		if why := p.adoption(ctx); why != (refusal{}) {
			return "", why
		}
		return p.make()
	case !p.request.Trusted:
		return "", refusal{}
	}
	why = p.rights(ctx)
	switch {
	case why.unknown:
		return "", why
	case why != (refusal{}):
		// In the validating phase the writer learns which right is missing.
		return "", refusal{}
	}
	return p.make()
}

func (p *proving) make() (text string, why refusal) {
	text, err := p.options.Proofs.Make(p.object)
	if err != nil {
		return "", unless("", fmt.Errorf("the right to write it could not be proven: %w, try again", err))
	}
	return text, refusal{}
}

// Prove returns the reason why a policy has no valid proof.
func (p *proving) Prove(ctx context.Context, object api.Object) string {
	return p.options.Proofs.Prove(ctx, object)
}

// adopts reports whether the request asks for a proof of a policy that it does not change. The
// request must set the annotation again: that distinguishes it from other writes, for example of
// controllers with all rights that do not check what the policy says.
func (p *proving) adopts() bool {
	value := p.object.GetAnnotations()[proof.Annotation]
	return p.old != nil && strings.HasPrefix(value, proof.Adopt) && value != p.old.GetAnnotations()[proof.Annotation]
}

// adoption returns the reason why the writer may not adopt the policy; empty if they may. Adopting
// needs the verb escalate, and the rights to write the policy.
func (p *proving) adoption(ctx context.Context) refusal {
	if !p.request.Trusted {
		return because(untrusted)
	}
	kind, _ := api.KindOf(p.object)
	escalate := ask(p.request.User, "escalate", kind.Resource)
	escalate.Resource.Group = kind.Group
	escalate.Name, escalate.Namespace = p.object.GetName(), p.object.GetNamespace()
	if why := unless((Rights{{What: "to adopt a policy needs", Ask: escalate}}).Missing(ctx, p.options.May)); why != (refusal{}) {
		return why
	}
	return p.rights(ctx)
}

// rights returns the right that the writer lacks; nothing if none.
func (p *proving) rights(ctx context.Context) refusal {
	if p.options.May == nil || p.request.User.Name == "" {
		return because("whether its writer may write it cannot be asked")
	}
	compiled := p.options.Compile.Policy(ctx, api.Policy{Object: p.object})
	// A suspended policy may have errors. Its proof is none of the policy in force.
	if why := broken(&compiled); why != (refusal{}) && !api.Suspended(p.object) {
		return why
	}
	return p.missing(ctx, p.request, compiled)
}

const untrusted = "Usher proves policies only for API servers that prove who they are: let Usher keep the registration, or start it with --client-ca-file or --token-file"

// proven returns d if the policy has the proof that it needs, and a denial otherwise. If the
// request changes what the policy says, the rights of its user were checked before.
func (g *guard) proven(ctx context.Context, r *usher.Request, d usher.Decision) (usher.Decision, error) {
	p := g.newProving(r, r.Object)
	if p == nil {
		return d, nil
	}
	unproven := p.Prove(ctx, p.object)
	why := because(unproven)
	switch {
	case p.same:
		why = p.kept(ctx, unproven)
	case unproven == "":
	case !r.Trusted:
		why.why = untrusted
	case p.object.GetAnnotations()[proof.Annotation] == "":
		why.why = "it has not got the proof that it needs, as Usher was not asked to mutate it; if Usher is being upgraded, try again"
	default:
		why.why += "; what wrote it after Usher, such as another webhook, has to leave policies alone"
	}
	if why == (refusal{}) {
		return d, nil
	}
	refused := p.refuse(why)
	refused.Warnings = d.Warnings
	return refused, nil
}

// kept returns the reason to refuse the proof of a policy after a write that changes nothing else;
// why says what is wrong with the proof.
func (p *proving) kept(ctx context.Context, why string) refusal {
	stored := p.old.GetAnnotations()[proof.Annotation]
	unproven := p.Prove(ctx, p.old) != ""
	switch {
	case p.object.GetDeletionTimestamp() != nil:
		// A policy can always be deleted.
		return refusal{}
	case why == "" && unproven:
		// The policy was adopted: check that here too, because the proof may come from elsewhere.
		return p.adoption(ctx)
	case why == "" || p.object.GetAnnotations()[proof.Annotation] == stored:
		return refusal{}
	case unproven && !strings.HasPrefix(p.object.GetAnnotations()[proof.Annotation], proof.Adopt):
		return refusal{}
	case !p.request.Trusted:
		return because(untrusted)
	}
	return because("its annotation " + proof.Annotation + " was changed after Usher set it; what wrote it, such as another webhook, has to leave policies alone")
}

// generated refuses a policy whose name is still to be generated.
func (g *guard) generated(r *usher.Request) usher.Decision {
	kind := kindOf(r).Kind
	d := usher.Denied("%s: metadata.generateName is not for policies of this kind, which are proven under their name: set metadata.name", kind)
	d.Findings = []usher.Finding{{
		Policy: usher.PolicyRef{Kind: kind, Namespace: r.Namespace}, Rule: "metadata.generateName", Outcome: usher.Rejected, Message: d.Message,
	}}
	return coded(d, http.StatusForbidden)
}

func (p *proving) refuse(why refusal) usher.Decision {
	return why.denial(usher.Finding{Policy: compile.Ref(p.object), Rule: "metadata.annotations"})
}

// names returns the name of an object, and whether the API server still has to generate it.
func names(tree map[string]any, r *usher.Request) (name string, generated bool) {
	metadata, _ := tree["metadata"].(map[string]any)
	name, _ = metadata["name"].(string)
	prefix, _ := metadata["generateName"].(string)
	if name == "" {
		name = r.Name
	}
	return name, prefix != ""
}

// annotate returns the patch that makes text the value of an annotation of a policy; no text takes it
// away.
func annotate(object api.Object, name, text string) usher.Patch {
	annotations := object.GetAnnotations()
	is, there := annotations[name]
	path := usher.Pointer("metadata", "annotations", name)
	switch {
	case is == text && (there || text == ""):
		return nil
	case text == "":
		return usher.Patch{{Op: "remove", Path: path}}
	case annotations == nil:
		return usher.Patch{{Op: "add", Path: "/metadata/annotations", Value: map[string]any{name: text}}}
	}
	return usher.Patch{{Op: "add", Path: path, Value: text}}
}
