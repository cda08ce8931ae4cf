// Functions without a body (go:linkname) need an assembly file in their package.
