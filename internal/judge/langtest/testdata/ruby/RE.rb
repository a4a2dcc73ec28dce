puts nil.missing
