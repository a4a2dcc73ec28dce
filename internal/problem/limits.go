package problem

// The sizes that bound a package wherever one is read: an upload, an archive
// from the blob store, a directory on a worker. They are gavel's own and the
// same in every layer, so nothing that was accepted in one place is too large
// in the next.
const (
	// MaxPackageBytes bounds the sum of the sizes of a package's files, and
	// also an upload as it arrives. It is the one size limit for packages.
	MaxPackageBytes = 1 << 30 // 1 GiB
	// MaxFiles bounds the number of files of a package.
	MaxFiles = 20_000
	// MaxPathBytes bounds one path inside a package.
	MaxPathBytes = 512
	// MaxManifestBytes bounds manifest.json; with MaxFiles files and as many
	// tests it stays far below.
	MaxManifestBytes = 32 << 20
)
