package cli

// What tests need to know of the settings.
var (
	Settings = settingsOf
	Concerns = concerns
)
