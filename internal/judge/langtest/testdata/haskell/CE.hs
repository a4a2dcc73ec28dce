main :: IO ()
main = print missing
