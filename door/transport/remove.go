package transport

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
)

// pageSize is how many objects of a collection are read at once.
const pageSize = 250

// remove decides a DELETE of one object.
func (x *exchange) remove() (*http.Response, error) {
	if !x.concerns(x.unread(), usher.Delete) {
		return x.pass()
	}
	options, err := x.deleteOptions()
	if err != nil {
		return nil, err
	}
	theirs := options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
	return x.conditionally(!theirs, func(old map[string]any) (*http.Response, error) {
		if old == nil {
			return x.missing()
		}
		asked, err := x.removal(old, options)
		if err != nil {
			return nil, err
		}
		version := text(old, "resourceVersion")
		if !asked || theirs || version == "" {
			return x.pass()
		}
		condition := options.DeepCopy()
		if condition.Preconditions == nil {
			condition.Preconditions = &metav1.Preconditions{}
		}
		if uid := types.UID(text(old, "uid")); condition.Preconditions.UID == nil && uid != "" {
			condition.Preconditions.UID = &uid
		}
		condition.Preconditions.ResourceVersion = &version
		return x.sendObject(mediaJSON, condition)
	})
}

// missing responds that there is no such object: if it is created now, nobody has decided what is to be done with it.
func (s *server) missing() (*http.Response, error) {
	err := apierrors.NewNotFound(s.target.resource.GroupResource(), s.target.name)
	return s.respond(&err.ErrStatus)
}

// removal decides the deletion of an object.
//
// It reports whether the decider may cover it.
func (x *exchange) removal(old map[string]any, options *metav1.DeleteOptions) (bool, error) {
	kind, err := kindOf(old)
	if err != nil || !x.concerns(kind, usher.Delete) {
		return false, err
	}
	r := x.question(usher.Delete, kind, options.DryRun)
	if r.Options, err = asObject(options); err != nil {
		return true, err
	}
	r.OldObject = usher.TreeObject(old)
	x.placed(r, old)
	_, err = x.settle(r)
	return true, err
}

// deleteOptions are those in the body, or without one those in the URL.
func (a *asked) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(a.body) == 0 {
		query := a.request.URL.Query()
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, options, nil); err != nil {
			return nil, fmt.Errorf("decode options: %w", err)
		}
	} else if err := a.decodeInto(options); err != nil {
		return nil, err
	}
	options.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "DeleteOptions"}
	return options, nil
}

func (a *asked) decodeInto(options *metav1.DeleteOptions) error {
	object, err := a.decode()
	if err != nil {
		return err
	}
	if err := object.Into(options); err != nil {
		return fmt.Errorf("decode options: %w", err)
	}
	return nil
}

// removeCollection decides a DELETE of many objects: all are deleted, or none. Objects that are
// created meanwhile are kept.
func (x *exchange) removeCollection() (*http.Response, error) {
	if !x.concerns(x.unread(), usher.Delete) {
		return x.pass()
	}
	options, err := x.deleteOptions()
	if err != nil {
		return nil, err
	}
	query := x.request.URL.Query()
	whole := query.Get("limit") == "" && query.Get("continue") == ""
	if whole {
		query.Set("limit", fmt.Sprint(pageSize))
	}
	version, asked := "", false
	for {
		list, err := x.list(query)
		if err != nil {
			return nil, err
		}
		if version == "" {
			version = list.Metadata.ResourceVersion
		}
		kind := strings.TrimSuffix(list.Kind, "List")
		// Those that are created meanwhile are not in it.
		asked = asked || x.concerns(schema.FromAPIVersionAndKind(list.APIVersion, kind), usher.Delete)
		for _, item := range list.Items {
			// Items of a list omit apiVersion and kind.
			item["apiVersion"], item["kind"] = list.APIVersion, kind
			may, err := x.removal(item, options)
			if err != nil {
				return nil, err
			}
			asked = asked || may
		}
		if !whole || list.Metadata.Continue == "" {
			break
		}
		query.Set("continue", list.Metadata.Continue)
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
	}
	if !asked || !whole || version == "" || x.request.URL.Query().Get("resourceVersion") != "" {
		return x.pass()
	}
	to := x.query(url.Values{"resourceVersion": {version}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchExact)}})
	return x.send(to, x.request.Header, x.body)
}

// errNoList is the error for a response that does not tell what is deleted.
var errNoList = errors.New("read what is to be deleted, to decide about it: the response is not a list of objects")

// A list is a page of a collection.
type list struct {
	metav1.TypeMeta

	Metadata metav1.ListMeta
	Items    []map[string]any
}

func (s *server) list(query url.Values) (*list, error) {
	code, body, err := s.call(http.MethodGet, s.request.URL.Path, query, nil, nil)
	if err != nil {
		return nil, err
	}
	if !isOK(code) {
		return nil, fmt.Errorf("read what is to be deleted, to decide about it: %s", problem(code, body))
	}
	tree, err := usher.RawObject(body).Tree()
	if err != nil {
		return nil, fmt.Errorf("read what is to be deleted: %w", err)
	}
	page := &list{}
	page.APIVersion, _ = tree["apiVersion"].(string)
	page.Kind, _ = tree["kind"].(string)
	page.Metadata.ResourceVersion, page.Metadata.Continue = text(tree, "resourceVersion"), text(tree, "continue")
	items, isList := tree["items"].([]any)
	if !strings.HasSuffix(page.Kind, "List") || page.APIVersion == "" || !isList && tree["items"] != nil {
		return nil, errNoList
	}
	for _, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, errNoList
		}
		page.Items = append(page.Items, object)
	}
	return page, nil
}
