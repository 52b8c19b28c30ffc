package try

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
)

// kubectl names objects as KIND/NAME, each, or as one KIND and the NAMEs of objects.
var (
	objectArgument = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9.-]*/[a-z0-9][a-zA-Z0-9.:-]*$`)
	kindArgument   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9.-]*$`)
	nameArgument   = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9.:-]*$`)
)

// completeNamed is complete for arguments that may name objects of the cluster.
func (f *decideFlags) completeNamed(args []string) error {
	files := f.takeNamed(args)
	for _, file := range files {
		if !f.fromCluster && !exists(file) && objectArgument.MatchString(file) {
			return fmt.Errorf("%s: no such file; an object of the cluster is named with --from-cluster", file)
		}
	}
	return f.complete(files)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// takeNamed takes from the arguments those that name objects of the cluster, and returns the files.
func (f *decideFlags) takeNamed(args []string) (files []string) {
	// No files have these names, so that a file or folder that is called as the kind is not meant.
	isName := func(arg string) bool { return nameArgument.MatchString(arg) && !exists(arg) }
	if f.fromCluster && len(args) > 1 && kindArgument.MatchString(args[0]) && !slices.ContainsFunc(args[1:], func(arg string) bool { return !isName(arg) }) {
		for _, name := range args[1:] {
			f.named = append(f.named, args[0]+"/"+name)
		}
		return nil
	}
	for _, arg := range args {
		if f.fromCluster && !exists(arg) && objectArgument.MatchString(arg) {
			f.named = append(f.named, arg)
			continue
		}
		files = append(files, arg)
	}
	return files
}

// questions returns the requests of files, and those that would create the named objects of the cluster.
func (f *decideFlags) questions(cmd *cobra.Command, s cli.Streams) ([]Question, error) {
	var all []Question
	var err error
	if len(f.files) > 0 {
		if all, err = f.requests(cmd, s); err != nil {
			return nil, err
		}
	}
	stored, err := f.stored(cmd.Context())
	if err != nil {
		return nil, err
	}
	f.noteWritten(cmd, s, all)
	f.noteNoNamespace(cmd, s, all)
	all = append(all, stored...)
	f.noteUser(cmd, s, all)
	f.know(f.store, all)
	return all, nil
}

// stored returns the requests that would create the objects of the cluster that the arguments name.
func (f *decideFlags) stored(ctx context.Context) ([]Question, error) {
	if len(f.named) == 0 {
		return nil, nil
	}
	clients, err := f.connect()
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewShortcutExpander(clients.Mapper, clients.Kube.Discovery(), nil)
	who, err := f.asker.who(ctx, &f.user)
	if err != nil {
		return nil, err
	}
	questions := make([]Question, len(f.named))
	for i, named := range f.named {
		object, err := f.storedObject(ctx, clients.Facts, mapper, named)
		if err != nil {
			return nil, fmt.Errorf("--from-cluster: %w", err)
		}
		r, err := f.request(objects.Input{File: named, Object: object}, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named, err)
		}
		r.User = who
		questions[i] = Question{File: named, Request: r, registered: f.registered}
	}
	return questions, nil
}

// storedObject returns an object of the cluster as a client would create it.
func (f *decideFlags) storedObject(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, named string) (map[string]any, error) {
	kind, name, _ := strings.Cut(named, "/")
	resource, err := mapper.ResourceFor(schema.ParseGroupResource(strings.ToLower(kind)).WithVersion(""))
	if near := cluster.NearResource(strings.ToLower(kind)); near != "" && meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w: did you mean %s?", err, near)
	}
	if err != nil {
		return nil, err
	}
	mapping, err := kindOf(mapper, resource)
	if err != nil {
		return nil, err
	}
	var found *unstructured.Unstructured
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if found, err = client.Resource(resource).Namespace(f.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			err = cmp.Or(cluster.NoNamespace(ctx, client, f.namespace), fmt.Errorf("namespace %s: %w", f.namespace, notStored(err)))
		}
	} else {
		found, err = client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
		err = notStored(err)
	}
	if err != nil {
		return nil, err
	}
	return AsWritten(found), nil
}

// notStored adds to the error about an object that is not in the cluster what to do if it was refused.
func notStored(err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: if it was refused, name its file with -f", err)
}

// AsWritten returns an object of a cluster as a client would create it. It changes the object.
func AsWritten(found *unstructured.Unstructured) map[string]any {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(found.Object, "metadata", field)
	}
	delete(found.Object, "status")
	return found.Object
}

// kindOf returns the kind of a resource, and whether its objects are in namespaces.
func kindOf(mapper meta.RESTMapper, resource schema.GroupVersionResource) (*meta.RESTMapping, error) {
	kind, err := mapper.KindFor(resource)
	if err != nil {
		return nil, err
	}
	return mapper.RESTMapping(kind.GroupKind(), kind.Version)
}
