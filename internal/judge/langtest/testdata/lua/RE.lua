print(missing.field)
