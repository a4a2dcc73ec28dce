print([][7])
