package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
)

const (
	mediaJSON     = "application/json"
	mediaYAML     = "application/yaml"
	mediaCBOR     = "application/cbor"
	mediaProtobuf = "application/vnd.kubernetes.protobuf"

	mediaJSONPatch      = "application/json-patch+json"
	mediaMergePatch     = "application/merge-patch+json"
	mediaStrategicPatch = "application/strategic-merge-patch+json"
	mediaApplyYAML      = "application/apply-patch+yaml"
	mediaApplyCBOR      = "application/apply-patch+cbor"
)

// mediaType is the media type of the body; without one it is JSON, as for API servers.
func (a *asked) mediaType() (string, error) {
	if encoding := a.request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return "", fmt.Errorf("decode body: Content-Encoding is %q, which is not known", encoding)
	}
	header := a.request.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON, nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return "", fmt.Errorf("decode body: Content-Type is %q: %w", header, err)
	}
	return media, nil
}

// decode returns the object in the body of the request.
func (a *asked) decode() (*usher.Object, error) {
	media, err := a.mediaType()
	if err != nil {
		return nil, err
	}
	switch media {
	case mediaJSON:
		return usher.RawObject(a.body), nil
	case mediaYAML, mediaApplyYAML:
		text, err := yaml.YAMLToJSON(a.body)
		if err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
		return usher.RawObject(text), nil
	case mediaCBOR, mediaApplyCBOR:
		tree := map[string]any{}
		if err := direct.Unmarshal(a.body, &tree); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
		return usher.TreeObject(tree), nil
	case mediaProtobuf:
		return a.decodeProtobuf()
	}
	return nil, fmt.Errorf("decode body: Content-Type %s is not known", media)
}

// tree is the object in the body of the request, decoded.
func (a *asked) tree() (map[string]any, error) {
	object, err := a.decode()
	if err != nil {
		return nil, err
	}
	return object.Tree()
}

// decodeProtobuf decodes a body that only its Go type can decode.
func (a *asked) decodeProtobuf() (*usher.Object, error) {
	object, kind, err := a.codecs.UniversalDeserializer().Decode(a.body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode body: %w: add the type to Options.Scheme, or set ContentType of the client to %s", err, mediaJSON)
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("decode body: %w", err)
	}
	return usher.RawObject(text), nil
}

func encode(tree any) ([]byte, error) {
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return body, nil
}

var errNoKind = errors.New("decode body: the object does not say its apiVersion and kind")

// kindOf is the kind of an object.
func kindOf(tree map[string]any) (schema.GroupVersionKind, error) {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	if apiVersion == "" || kind == "" {
		return schema.GroupVersionKind{}, errNoKind
	}
	return schema.FromAPIVersionAndKind(apiVersion, kind), nil
}

// text is a field of the metadata of an object, empty if it is missing.
func text(tree map[string]any, field string) string {
	metadata, _ := tree["metadata"].(map[string]any)
	value, _ := metadata[field].(string)
	return value
}

// with is tree with one field of its metadata replaced. It does not change tree.
func with(tree map[string]any, field string, value any) map[string]any {
	changed := make(map[string]any, len(tree)+1)
	maps.Copy(changed, tree)
	metadata, _ := tree["metadata"].(map[string]any)
	copied := make(map[string]any, len(metadata)+1)
	maps.Copy(copied, metadata)
	copied[field] = value
	changed["metadata"] = copied
	return changed
}

func isOK(code int) bool { return code >= http.StatusOK && code < http.StatusMultipleChoices }
