console.log(undefined.missing);
