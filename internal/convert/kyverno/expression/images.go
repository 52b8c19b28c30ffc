package expression

// Kinds of what a scope has of images: a map of them by the names of containers, which is a list of containers in CEL,
// and one of them, which is a container.
const (
	images Kind = "images"
	image  Kind = "image"
)

// Images returns a scope that has the images of the pod that a request writes: object in CEL, which may be null.
func (s *Scope) Images(nullable bool) *Scope {
	inner := s
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		all := "object.?spec.?" + list + ".orValue([])"
		if nullable {
			// What is deleted has no images.
			all = "(object == null ? [] : " + all + ")"
		}
		of := all + ".filter(holder, holder.?image.orValue('') != '')"
		v := Value{Type: Type{Kind: images}, Text: "object.spec." + list + ".filter(holder, holder.?image.orValue('') != '')", binds: postfix, absent: missing, empty: of}
		v.option = "optional.ofNonZeroValue(" + of + ")"
		inner = inner.With("images."+list, v)
	}
	delete(inner.hidden, "images")
	return inner
}

// imagesOf returns the images of a map of them as a list.
func imagesOf(v Value) Value {
	v.Type = ListOf(Type{Kind: image})
	return v
}

// imageNamed selects an image by the name of its container.
func imageNamed(v Value, name string) Value {
	found := v.in(postfix) + ".filter(holder, holder.name == " + name + ")"
	selected := Value{Type: Type{Kind: image}, Text: found + "[0]", option: found + "[?0]", binds: postfix, absent: missing}
	if v.option != "" {
		selected.option = v.list() + ".filter(holder, holder.name == " + name + ")[?0]"
	}
	return selected
}

const hasRegistry = ".matches('^([^/]*[.:][^/]*|localhost)/')"

// imagePart selects a part of the name of an image.
func imagePart(v Value, name string) (Value, error) {
	part := Value{Type: Type{Kind: Text, Plain: true}, binds: postfix}
	write := func(of string) string {
		named := of + ".split('@')[0]"
		last := named + ".substring(" + named + ".lastIndexOf('/') + 1)"
		switch name {
		case "registry":
			return "(" + of + hasRegistry + " ? " + of + ".split('/')[0] : 'docker.io')"
		case "path":
			return "(" + of + hasRegistry + " ? " + of + ".substring(" + of + ".indexOf('/') + 1) : " + of + ").split('@')[0].split(':')[0]"
		case "name":
			return last + ".split(':')[0]"
		case "tag":
			part.absent = missing
			return last + ".split(':')[?1].or(" + of + ".contains('@') ? optional.none() : optional.of('latest'))"
		case "digest":
			part.absent = missing
			return of + ".split('@')[?1]"
		}
		return ""
	}
	text := write(v.in(postfix) + ".image")
	switch {
	case text == "":
		return v, refuse(writeIt, "%s of an image is not imported", name)
	case part.absent == missing && v.option == "":
		part.option, part.Text = text, text+".value()"
	case part.absent == missing:
		part.option, part.Text = v.option+".optFlatMap(v, "+write("v.image")+")", text+".value()"
	case v.option != "":
		part.option, part.Text, part.absent = v.option+".optMap(v, "+write("v.image")+")", text, v.absent
	default:
		part.Text = text
	}
	return part, nil
}
