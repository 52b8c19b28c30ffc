package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	usher "github.com/usher-dev/usher"
)

// patch decides a PATCH by its result.
func (x *exchange) patch() (*http.Response, error) {
	media, err := x.mediaType()
	if err != nil {
		return nil, err
	}
	if media == mediaApplyYAML || media == mediaApplyCBOR {
		return x.apply()
	}
	if !x.concerns(x.unread(), usher.Update) {
		return x.pass()
	}
	theirs := x.conditional(media)
	return x.conditionally(!theirs, func(old map[string]any) (*http.Response, error) {
		if old == nil {
			return x.missing()
		}
		kind, err := kindOf(old)
		if err != nil {
			return nil, err
		}
		if !x.concerns(kind, usher.Update) {
			return x.pass()
		}
		tree, err := x.patched(media, kind, old)
		if err != nil {
			return asReply(err)
		}
		r, err := x.change(old, tree, kind)
		if err != nil {
			return nil, err
		}
		changed, err := x.settle(r)
		if err != nil {
			return nil, err
		}
		version := text(old, "resourceVersion")
		if !changed {
			return x.sendPatch(media, version, theirs)
		}
		if tree, err = r.Object.Tree(); err != nil {
			return nil, err
		}
		// It leads from the old object to exactly this one, and needs the same permissions as the
		// client's own patch.
		difference := merge(old, tree)
		if !theirs && version != "" {
			difference = with(difference, "resourceVersion", version)
		}
		return x.sendObject(mediaMergePatch, difference)
	})
}

// patched applies a patch as API servers do. Strategic merge needs the Go type; without one, the
// server is asked.
func (x *exchange) patched(media string, kind schema.GroupVersionKind, old map[string]any) (map[string]any, error) {
	if media == mediaStrategicPatch && !x.options.Scheme.Recognizes(kind) {
		intent, err := usher.RawObject(x.body).Tree()
		if err != nil {
			return nil, err
		}
		if version := text(old, "resourceVersion"); version != "" && text(intent, "resourceVersion") == "" {
			intent = with(intent, "resourceVersion", version)
		}
		return x.try(x.request.URL, media, intent)
	}
	object, err := encode(old)
	if err != nil {
		return nil, err
	}
	result, err := x.applyPatch(media, kind, object)
	if err != nil {
		return nil, err
	}
	tree, err := usher.RawObject(result).Tree()
	if err == nil && tree == nil {
		err = fmt.Errorf("apply patch: nothing is left of the object")
	}
	return tree, err
}

func (x *exchange) applyPatch(media string, kind schema.GroupVersionKind, object []byte) ([]byte, error) {
	switch media {
	case mediaJSONPatch:
		operations, err := jsonpatch.DecodePatch(x.body)
		if err != nil {
			return nil, x.left(err)
		}
		result, err := operations.Apply(object)
		if err != nil {
			return nil, x.left(err)
		}
		return result, nil
	case mediaMergePatch:
		result, err := jsonpatch.MergePatch(object, x.body)
		if err != nil {
			return nil, x.left(err)
		}
		return result, nil
	case mediaStrategicPatch:
		like, err := x.options.Scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("apply patch: %w", err)
		}
		result, err := strategicpatch.StrategicMergePatch(object, x.body, like)
		if err != nil {
			return nil, x.left(err)
		}
		return result, nil
	}
	return nil, fmt.Errorf("decode body: Content-Type %s is no patch", media)
}

// left has the server say what is wrong with a patch that does not apply, without writing anything. If the patch
// applies there, others have changed the object since it was read: that is a conflict.
func (s *server) left(reason error) error {
	to := *s.request.URL
	query := to.Query()
	query.Set("dryRun", metav1.DryRunAll)
	to.RawQuery = query.Encode()
	response, err := s.send(&to, s.request.Header, s.body)
	if err != nil {
		return err
	}
	if !isOK(response.StatusCode) {
		return reply{response}
	}
	discard(response)
	response, err = s.respond(&metav1.Status{ //nolint:bodyclose // The client closes it.
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
		Message: fmt.Sprintf("the patch does not apply to the object as it was read, so that policies could not decide it: %v", reason),
	})
	if err != nil {
		return err
	}
	return reply{response}
}

// conditional reports whether the patch itself names the version of the object.
func (a *asked) conditional(media string) bool {
	if media != mediaJSONPatch {
		tree, err := usher.RawObject(a.body).Tree()
		return err == nil && text(tree, "resourceVersion") != ""
	}
	var operations []struct{ Op, Path string }
	if err := json.Unmarshal(a.body, &operations); err != nil {
		return false
	}
	for _, o := range operations {
		switch o.Path {
		case "", "/metadata", "/metadata/resourceVersion":
			if o.Op != "test" && o.Op != "remove" {
				return true
			}
		}
	}
	return false
}

// sendPatch sends the client's own patch, conditional on the object's version.
func (s *server) sendPatch(media, version string, theirs bool) (*http.Response, error) {
	if theirs || version == "" {
		return s.pass()
	}
	if media == mediaJSONPatch {
		var operations []json.RawMessage
		if err := json.Unmarshal(s.body, &operations); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
		condition, err := encode(usher.PatchOp{Op: "add", Path: "/metadata/resourceVersion", Value: version})
		if err != nil {
			return nil, err
		}
		return s.sendObject(media, append(slices.Clip(operations), condition))
	}
	tree, err := usher.RawObject(s.body).Tree()
	if err != nil {
		return nil, err
	}
	return s.sendObject(media, with(tree, "resourceVersion", version))
}

// merge is the merge patch (RFC 7386) from one object to another, without the fields that API
// servers set.
func merge(from, to map[string]any) map[string]any {
	patch := difference(from, to)
	if metadata, ok := patch["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	return patch
}

func difference(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range to {
		before, existed := from[key]
		if existed && reflect.DeepEqual(before, value) {
			continue
		}
		was, wasMap := before.(map[string]any)
		is, isMap := value.(map[string]any)
		switch {
		case wasMap && isMap:
			patch[key] = difference(was, is)
		case isMap:
			// A null in a merge patch removes: merging a new value into nothing omits nulls.
			patch[key] = difference(nil, is)
		default:
			patch[key] = value
		}
	}
	for key := range from {
		if _, kept := to[key]; !kept {
			patch[key] = nil
		}
	}
	return patch
}
