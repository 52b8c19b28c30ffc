package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/auditlog"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/policytest"
)

// noUser is why it is not known who writes an object.
const noUser = "objects do not tell who writes them"

// read calls use for all requests, in order. Files of folders that have none are skipped with a note.
func (c *comparing) read(ctx context.Context, cmd *cobra.Command, s cli.Streams, from []string, use func(item) error) error {
	var files []requestFile
	for _, path := range from {
		names := []string{path}
		if path != "-" {
			found, err := manifest.Files(path)
			if err != nil {
				return fmt.Errorf("--requests: %w", err)
			}
			names = found
		}
		for _, name := range names {
			files = append(files, requestFile{name: name, inFolder: name != path})
		}
	}
	if err := c.knowObjects(s, files); err != nil {
		return fmt.Errorf("--requests: %w", err)
	}
	var skipped []string
	for i := range files {
		file := &files[i]
		err := c.readFile(ctx, cmd, s, file, use)
		if file.inFolder && errors.Is(err, objects.ErrNoObject) {
			skipped = append(skipped, file.name)
			continue
		}
		if err != nil {
			return fmt.Errorf("--requests: %w", err)
		}
	}
	if len(skipped) > 0 {
		cli.Notef(cmd, s, "note", "skipped what is neither an audit log nor a Kubernetes object in %s: %s", cli.Count(len(skipped), "file", "files"), cli.Some(skipped))
	}
	return nil
}

// readFile calls use for the requests of a file, which is an audit log if it begins like one.
func (c *comparing) readFile(ctx context.Context, cmd *cobra.Command, s cli.Streams, file *requestFile, use func(item) error) error {
	kept, err := file.open(s)
	if err != nil {
		return err
	}
	defer kept.close()
	switch {
	case kept.isLog():
		return c.log.Read(ctx, kept.buffered, file.name, func(e auditlog.Entry) error { return use(item{Subject: e.Subject}) })
	case file.hasCases():
		return readCases(ctx, file.name, use)
	}
	inputs, err := kept.objects(file.name)
	objects.NoteSlips(cmd, s, inputs, c.kinds)
	for i := range inputs {
		subject, err := c.subjectOf(&inputs[i])
		if err != nil {
			return err
		}
		if err := use(item{Subject: subject}); err != nil {
			return err
		}
	}
	return err
}

// readCases calls use for the requests of cases. Their policies and expectations are left out; the objects that
// they have exist for them alone.
func readCases(ctx context.Context, file string, use func(item) error) error {
	tests, err := policytest.Tests(file)
	if err != nil {
		return err
	}
	for _, t := range tests {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i := item{Subject: &impact.Subject{From: file + ": " + t.Name}}
		if access, ok := t.Access(); ok {
			i.Question = &impact.Question{Request: access.Request}
		}
		if c, ok := t.Admission(); ok {
			if i.Request, err = c.Request.For(usher.Mutate); err != nil {
				return fmt.Errorf("%s: %w", i.From, err)
			}
			i.Unknown.HTTP = "the HTTP services of cases are not asked"
			if i.facts, err = c.Facts(); err != nil {
				return fmt.Errorf("%s: %w", i.From, err)
			}
		}
		if err := use(i); err != nil {
			return err
		}
	}
	return nil
}

// subjectOf returns the creation of an object, or the request of a review.
func (c *comparing) subjectOf(in *objects.Input) (*impact.Subject, error) {
	if in.Review != nil {
		return &impact.Subject{Request: admission.RequestOf(in.Review), From: in.File}, nil
	}
	k, err := in.Place(c.namespace, c.kinds)
	if err != nil {
		return nil, err
	}
	return &impact.Subject{Request: writing(k, usher.Create, podtemplate.Defaulted(in.Object)), From: in.File, Unknown: impact.Unknowns{User: noUser}}, nil
}

// writing returns a request that writes an object of a kind.
func writing(k result.Kind, operation usher.Operation, object map[string]any) *usher.Request {
	metadata, _ := object["metadata"].(map[string]any)
	r := &usher.Request{
		Phase: usher.Mutate, Operation: operation, Kind: k.Resource.GroupVersion().WithKind(k.Kind), Resource: k.Resource, Object: usher.TreeObject(object),
	}
	r.Name, _ = metadata["name"].(string)
	r.Namespace, _ = metadata["namespace"].(string)
	if r.Resource.Group == "" && r.Resource.Resource == "namespaces" {
		r.Namespace = r.Name
	}
	return r
}
