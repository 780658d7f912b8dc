//go:build !linux

package segment

func onLargePages(load func()) { load() }
